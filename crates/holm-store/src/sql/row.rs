//! Rows, read column by column in the order of the statement.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use super::Value;
use crate::StoreError;

/// One row.
#[derive(Debug)]
pub(crate) struct Row(pub Vec<Value>);

impl Row {
    /// Reads from the first column on.
    pub fn reader(self) -> Reader {
        Reader { columns: self.0.into_iter(), number: 0 }
    }
}

/// Hands out the columns of a row one after the other.
pub(crate) struct Reader {
    columns: std::vec::IntoIter<Value>,
    number: usize,
}

impl Reader {
    fn next(&mut self) -> Result<Value, StoreError> {
        self.number += 1;
        self.columns.next().ok_or_else(|| self.wrong("is missing"))
    }

    /// That the column read last is not what it should be. Its content is not told.
    fn wrong(&self, what: &str) -> StoreError {
        StoreError::corrupt(format!("column {} of a row {what}", self.number))
    }

    pub fn int_or(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next()? {
            Value::Int(number) => Ok(Some(number)),
            Value::Null => Ok(None),
            _ => Err(self.wrong("is not a number")),
        }
    }

    pub fn text_or(&mut self) -> Result<Option<String>, StoreError> {
        match self.next()? {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            _ => Err(self.wrong("is not a text")),
        }
    }

    pub fn int(&mut self) -> Result<i64, StoreError> {
        self.int_or()?.ok_or_else(|| self.wrong("is empty"))
    }

    pub fn text(&mut self) -> Result<String, StoreError> {
        self.text_or()?.ok_or_else(|| self.wrong("is empty"))
    }

    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next()? {
            Value::Blob(bytes) => Ok(bytes),
            _ => Err(self.wrong("is not bytes")),
        }
    }

    pub fn bool(&mut self) -> Result<bool, StoreError> {
        self.int().map(|number| number != 0)
    }

    /// A number of another type.
    pub fn number<T: TryFrom<i64>>(&mut self) -> Result<T, StoreError> {
        let number = self.int()?;
        T::try_from(number).map_err(|_| self.wrong("is out of range"))
    }

    pub fn number_or<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(number) = self.int_or()? else { return Ok(None) };
        T::try_from(number).map(Some).map_err(|_| self.wrong("is out of range"))
    }

    pub fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.time_or()?.ok_or_else(|| self.wrong("is empty"))
    }

    pub fn time_or(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let Some(micros) = self.int_or()? else { return Ok(None) };
        Timestamp::from_microsecond(micros).map(Some).map_err(|_| self.wrong("is not a time"))
    }

    pub fn duration(&mut self) -> Result<Duration, StoreError> {
        self.number().map(Duration::from_micros)
    }

    pub fn duration_or(&mut self) -> Result<Option<Duration>, StoreError> {
        Ok(self.number_or()?.map(Duration::from_micros))
    }

    /// An id.
    pub fn id<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.id_or()?.ok_or_else(|| self.wrong("is empty"))
    }

    pub fn id_or<T: FromStr>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_or()? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.wrong("is not such an id"))
    }

    /// A name of a closed list.
    pub fn name<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Result<T, StoreError> {
        let text = self.text()?;
        read(&text).ok_or_else(|| self.wrong("is not a known name"))
    }

    pub fn name_or<T>(
        &mut self,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_or()? else { return Ok(None) };
        read(&text).map(Some).ok_or_else(|| self.wrong("is not a known name"))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        self.json_or()?.ok_or_else(|| self.wrong("is empty"))
    }

    pub fn json_or<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_or()? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|_| self.wrong("is not JSON as it should be"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_column_is_named_by_its_place() {
        let mut row = Row(vec![Value::Int(1), Value::Text("secret".to_owned())]).reader();
        assert_eq!(row.int().unwrap(), 1);
        let error = row.int().unwrap_err();
        assert_eq!(error.internal().unwrap(), "column 2 of a row is not a number");
        let error = row.int().unwrap_err();
        assert_eq!(error.internal().unwrap(), "column 3 of a row is missing");
    }
}
