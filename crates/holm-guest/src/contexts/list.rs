//! Which contexts there are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use holm_wire::connect::{Code, Error};
use holm_wire::kernel::{List, MOST_CONTEXTS};

use super::context::Context;
use crate::errors::{Result, shorten};

/// All of them, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Contexts {
    list: RefCell<Vec<Rc<Context>>>,
    last: Cell<u64>,
}

impl Contexts {
    /// An id that no context had before.
    pub fn fresh_id(&self) -> String {
        self.last.set(self.last.get() + 1);
        format!("ctx_{}", self.last.get())
    }

    /// Adds one.
    ///
    /// # Errors
    /// `resource_exhausted` when there are too many.
    pub fn add(&self, context: &Rc<Context>) -> Result<()> {
        let mut list = self.list.borrow_mut();
        if list.len() >= MOST_CONTEXTS {
            let text = format!("this sandbox has {MOST_CONTEXTS} contexts; delete some first");
            return Err(Error::new(Code::ResourceExhausted, text));
        }
        list.push(Rc::clone(context));
        Ok(())
    }

    /// One by its id.
    pub fn get(&self, id: &str) -> Option<Rc<Context>> {
        self.list.borrow().iter().find(|context| context.id == id).cloned()
    }

    /// The same.
    ///
    /// # Errors
    /// `not_found`.
    pub fn find(&self, id: &str) -> Result<Rc<Context>> {
        self.get(id).ok_or_else(|| {
            Error::new(Code::NotFound, format!("there is no context {} here", shorten(id)))
        })
    }

    /// Takes one away; it goes on until it is deleted itself.
    pub fn remove(&self, context: &Rc<Context>) {
        self.list.borrow_mut().retain(|other| !Rc::ptr_eq(other, context));
    }

    /// How they are.
    pub fn view(&self, workdir: &str) -> List {
        List { contexts: self.list.borrow().iter().map(|context| context.view(workdir)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contexts::gate::Place;
    use crate::identity::User;

    #[test]
    fn there_are_only_so_many() {
        let contexts = Contexts::default();
        let user = User {
            name: "u".to_owned(),
            uid: 1,
            gid: 1,
            groups: vec![],
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        };
        let place = Place { language: "x".to_owned(), user, cwd: None, env: Default::default() };
        let make = || Context::new(contexts.fresh_id(), place.clone(), false);
        let first = make();
        contexts.add(&first).unwrap();
        for _ in 1..MOST_CONTEXTS {
            contexts.add(&make()).unwrap();
        }
        assert_eq!(contexts.add(&make()).unwrap_err().code, Code::ResourceExhausted);
        assert_eq!(contexts.find("ctx_1").unwrap().id, "ctx_1");
        contexts.remove(&first);
        assert_eq!(contexts.find("ctx_1").unwrap_err().code, Code::NotFound);
        contexts.add(&make()).unwrap();
        let listed = contexts.view("/w").contexts;
        assert_eq!((listed.len(), &*listed[0].id, &*listed[0].cwd), (16, "ctx_2", "/w"));
    }
}
