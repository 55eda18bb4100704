//! `holm port`: exposed ports of a service's sandbox.

use holm_client::Client;
use holm_client::rest::{ExposedPort, Rest};
use holm_engine::SandboxId;

use crate::cli::{PortAction, PortArgs, PortExposeArgs};
use crate::env_vars::Environment;
use crate::exit::{self, Failure};
use crate::output;
use crate::settings::RemoteSettings;

const HEAD: [&str; 4] = ["PORT", "URL", "PUBLIC", "SINCE"];

pub(super) fn run(arguments: PortArgs, environment: &Environment) -> Result<u8, Failure> {
    let remote = RemoteSettings::required(environment)?;
    super::block_on(async {
        let client = Client::new(remote.options);
        let rest = Rest::new(client.map_err(|error| Failure::new(error.to_string()))?);
        match arguments.action {
            PortAction::Expose(expose) => show(&rest, &expose).await,
            PortAction::List(list) => {
                let ports = rest.port_list(&id(&list.sandbox)?).await.map_err(super::said)?;
                match list.json {
                    true => output::print_json(&ports),
                    false => output::print_rows(&HEAD, ports.iter().map(row)),
                }
            }
            PortAction::Unexpose(un) => {
                let done =
                    rest.port_unexpose(&id(&un.sandbox)?, un.port).await.map_err(super::said)?;
                match (un.json, done.already_unexposed) {
                    (true, _) => output::print_json(&done),
                    (false, false) => output::print_line(&format!("{} is unexposed", un.port)),
                    (false, true) => output::print_line(&format!("{} was not exposed", un.port)),
                }
            }
        }?;
        Ok(exit::SUCCESS)
    })
}

/// On standard output is what to open, so that it can be handed on.
async fn show(rest: &Rest, expose: &PortExposeArgs) -> Result<(), Failure> {
    let sandbox = id(&expose.sandbox)?;
    let port = rest.port_expose(&sandbox, expose.port, expose.public, expose.extend_lease).await;
    let port = port.map_err(super::said)?;
    if expose.json {
        return output::print_json(&port);
    }
    match (&port.link, &port.link_expires_at) {
        (Some(link), Some(until)) => {
            output::stderr(format!("opens once in a browser, until {until}:\n").as_bytes());
            output::print_line(link)
        }
        _ => output::print_line(&port.url),
    }
}

fn row(port: &ExposedPort) -> Vec<String> {
    let public = if port.public { "yes" } else { "no" };
    vec![port.port.to_string(), port.url.clone(), public.to_owned(), port.created_at.clone()]
}

/// Its text, in the form of the service.
fn id(text: &str) -> Result<String, Failure> {
    let id = text.parse::<SandboxId>();
    let id = id.map_err(|error| Failure::usage(format!("the sandbox {error}")))?;
    Ok(id.to_string())
}
