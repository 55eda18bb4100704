//! Sandboxes on templates of a library: what they are made of, and how long that is held.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holm_engine::{
    CreateSandbox, Error, ErrorKind, HeldTemplate, RunCommand, Template, TemplateConfig,
    TemplateLibrary,
};
use holm_runtime::{DriverErrorKind, Root};

use crate::support::{Service, engine, settings, until};

/// Templates in memory.
#[derive(Debug, Default)]
struct Shelf {
    templates: Mutex<Vec<Template>>,
    holds: Arc<AtomicUsize>,
    /// Of layers, whatever their template is by now.
    holds_of_layers: Arc<AtomicUsize>,
    asked: Mutex<Vec<Vec<String>>>,
}

/// Counts itself.
struct Hold(Arc<AtomicUsize>);

impl Hold {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TemplateLibrary for Shelf {
    fn list(&self) -> Result<Vec<Template>, Error> {
        Ok(self.templates.lock().unwrap().clone())
    }

    fn hold(&self, name: &str) -> Result<Option<HeldTemplate>, Error> {
        let templates = self.templates.lock().unwrap();
        let found = templates.iter().find(|template| template.name == name).cloned();
        Ok(found.map(|template| HeldTemplate {
            trees: template.layers.iter().map(|layer| format!("/{layer}/tree").into()).collect(),
            hold: Box::new(Hold::new(&self.holds)),
            template,
        }))
    }

    fn hold_layers(&self, layers: &[String]) -> Result<Option<Box<dyn Any + Send + Sync>>, Error> {
        self.asked.lock().unwrap().push(layers.to_vec());
        Ok(Some(Box::new(Hold::new(&self.holds_of_layers))))
    }
}

impl Shelf {
    fn new() -> Arc<Self> {
        let shelf = Self::default();
        shelf.put(&["one", "two"]);
        Arc::new(shelf)
    }

    /// The template `image`, of these layers.
    fn put(&self, layers: &[&str]) {
        let env = [("PATH", "/app/bin"), ("TOKEN", "hidden"), ("BAD=", "x"), ("", "y")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = TemplateConfig {
            env,
            user: Some("app:staff".to_owned()),
            workdir: Some("/app".to_owned()),
            cmd: vec!["serve".to_owned()],
            ..TemplateConfig::default()
        };
        let plain =
            Template { name: "plain".into(), layers: vec!["p".into()], ..Default::default() };
        let image = Template {
            name: "image".to_owned(),
            source: "somewhere".to_owned(),
            layers: layers.iter().map(|layer| (*layer).to_owned()).collect(),
            bytes: 7,
            created_at: None,
            config,
            ..Template::default()
        };
        *self.templates.lock().unwrap() = vec![image, plain];
    }

    fn held(&self) -> usize {
        self.holds.load(Ordering::SeqCst)
    }
}

fn from(template: &str) -> CreateSandbox {
    CreateSandbox { template: Some(template.to_owned()), ..CreateSandbox::default() }
}

fn with(shelf: &Arc<Shelf>) -> holm_engine::EngineSettings {
    holm_engine::EngineSettings { library: Some(Arc::clone(shelf) as _), ..settings() }
}

#[tokio::test]
async fn a_sandbox_stands_on_the_layers_and_has_what_the_image_says() {
    let shelf = Shelf::new();
    let (engine, driver) = engine(with(&shelf));
    let env = BTreeMap::from([("PATH".to_owned(), "/own".to_owned())]);
    let view = engine.sandbox_create(CreateSandbox { env, ..from("image") }).await.unwrap();
    assert_eq!(view.template, "image");
    let machine = Arc::clone(&driver.machines.lock().unwrap()[0]);
    let trees = vec!["/one/tree".into(), "/two/tree".into()];
    assert_eq!(machine.spec.root, Root::Layers(trees));
    let guest = &machine.guest.shared;
    let seen = guest.env.lock().unwrap().clone();
    let names: BTreeSet<_> = seen.keys().map(String::as_str).collect();
    assert!(names.contains("TOKEN") && !names.contains("") && !names.contains("BAD="), "{names:?}");
    assert_eq!(seen["PATH"], "/own", "the caller's counts");
    assert_eq!(guest.image.lock().unwrap().as_ref().unwrap().user, "app:staff");
    engine.exec_run(&view.id, RunCommand::shell("true")).await.unwrap();
    assert_eq!(guest.last_run.lock().unwrap().user, "", "whom the image names");
    assert_eq!(engine.template_workdir(Some("image")).await.unwrap(), "/app");
    assert_eq!(engine.template_workdir(None).await.unwrap(), "/workspace");

    // Of the host's own programs there is nothing to hold and nothing to settle.
    let view = engine.sandbox_create(from("base")).await.unwrap();
    assert_eq!((view.template.as_str(), shelf.held()), ("host", 1));
    let machine = Arc::clone(&driver.machines.lock().unwrap()[1]);
    assert_eq!(machine.spec.root, Root::Host);
    assert!(machine.guest.shared.image.lock().unwrap().is_none());
}

#[tokio::test]
async fn templates_are_listed_without_values_and_unknown_ones_named() {
    let shelf = Shelf::new();
    let (engine, _) = engine(with(&shelf));
    let all = engine.template_list().await.unwrap();
    let names: Vec<_> = all.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["host", "image", "plain"]);
    assert_eq!(all[0].aliases, ["base"]);
    assert!(!format!("{all:?}").contains("hidden"), "{all:?}");
    assert_eq!(engine.template_get("base").await.unwrap(), all[0]);
    assert_eq!((all[1].user.as_str(), all[1].workdir.as_str()), ("app:staff", "/app"));
    assert_eq!((all[2].user.as_str(), all[2].workdir.as_str()), ("root", "/workspace"));
    assert_eq!(engine.service_info().await.templates, ["base", "host", "image", "plain"]);
    for error in [
        engine.template_get("none").await.unwrap_err(),
        engine.sandbox_create(from("none")).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::TemplateUnknown);
        assert!(error.public.contains("base, host, image, plain"), "{error}");
    }
}

#[tokio::test]
async fn what_a_sandbox_stands_on_is_held_until_nothing_of_it_is_left() {
    let shelf = Shelf::new();
    let (engine, driver) = engine(with(&shelf));
    let first = engine.sandbox_create(from("image")).await.unwrap();
    let second = engine.sandbox_create(from("plain")).await.unwrap();
    assert_eq!(shelf.held(), 2);
    engine.sandbox_destroy(&first.id).await.unwrap();
    assert_eq!(shelf.held(), 1);
    for fault in [DriverErrorKind::Internal, DriverErrorKind::HostExhausted] {
        *driver.failing.lock().unwrap() = Some(fault);
        engine.sandbox_create(from("image")).await.unwrap_err();
        assert_eq!(shelf.held(), 1, "{fault:?}");
    }
    let refused = CreateSandbox { name: Some(String::new()), ..from("image") };
    engine.sandbox_create(refused).await.unwrap_err();
    assert_eq!(shelf.held(), 1);
    // Its end by itself counts as well.
    driver.last().die(holm_runtime::ExitReason::Died);
    until("let go", async || shelf.held() == 0).await;
    let view = engine.sandbox_get(&second.id).await.unwrap();
    assert!(view.ended.is_some());
}

/// The name may mean something else by then.
#[tokio::test(start_paused = true)]
async fn the_next_engine_holds_the_layers_that_were_recorded() {
    let shelf = Shelf::new();
    let mut service = Service::with(with(&shelf));
    service.driver.outlived.store(true, Ordering::SeqCst);
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(from("image")).await.unwrap().id;
    service.kill();
    service.engine.start().await.unwrap();
    assert!(shelf.asked.lock().unwrap().is_empty(), "the template itself is held");
    shelf.put(&["another"]);
    service.kill();
    service.engine.start().await.unwrap();
    assert_eq!(*shelf.asked.lock().unwrap(), [["one", "two"]]);
    let user = service.engine.for_caller(user.caller().clone());
    assert_eq!(user.sandbox_get(&id).await.unwrap().template, "image");
    // What the engines before held goes when they do; this one's is of layers.
    let held = || shelf.holds_of_layers.load(Ordering::SeqCst);
    assert_eq!(held(), 1);
    user.sandbox_destroy(&id).await.unwrap();
    assert_eq!(held(), 0);
}
