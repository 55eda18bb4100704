//! Arguments of `holm forward`.

use clap::Args;

/// Arguments of `holm forward`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForwardArgs {
    /// The sandbox
    #[arg(value_name = "ID")]
    pub sandbox: String,

    /// Port here and port in the sandbox; one number for both. 0 here takes a free one
    #[arg(value_name = "[HERE:]THERE", required = true, value_parser = forward)]
    pub ports: Vec<(u16, u16)>,
}

/// Reads `8000:80`, or `8000` for `8000:8000`.
fn forward(text: &str) -> Result<(u16, u16), String> {
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    let port = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a port"));
    match (port(here)?, port(there)?) {
        (_, 0) => Err("the port in the sandbox must be from 1 to 65535".to_owned()),
        ports => Ok(ports),
    }
}

const EXAMPLES: &str = "\
Examples:
  holm forward sbx_0123456789abcdef01 8000:8000      http://localhost:8000 is the sandbox's port 8000
  holm forward sbx_0123456789abcdef01 5432 0:6379    two ports, one of them at a free port here";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_in_pairs() {
        let check = |text: &str, want: Option<(u16, u16)>| {
            assert_eq!(forward(text).ok(), want, "{text}");
        };
        check("8000:80", Some((8000, 80)));
        check("8000", Some((8000, 8000)));
        check("0:80", Some((0, 80)));
        for wrong in ["", "0", "80:0", "65536", "80:65536", "a:80", "80:", ":80", "1:2:3", "-1:80"]
        {
            check(wrong, None);
        }
    }
}
