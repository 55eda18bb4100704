//! Where tests have their data directories, and what must not be left in them.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use holm_runtime::confined;
use holm_runtime::ids::IdMap;
use holm_template::import::{Request, import};
use holm_template::{Library, Template, TemplateError};

static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
    let mut args = std::env::args().skip(1);
    let dir = match args.next().as_deref() {
        Some("mode-child") => PathBuf::from(args.nth(1).unwrap()).join("base"),
        _ => std::env::temp_dir().join(format!("holm-template-{}", std::process::id())),
    };
    std::fs::create_dir(&dir).unwrap();
    dir
});
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory of its own for one test.
pub struct Place {
    pub dir: PathBuf,
    pub library: Library,
}

impl Place {
    pub fn new() -> Self {
        let dir = BASE.join(format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&dir).unwrap();
        let library = Library::open(&dir.join("data")).unwrap();
        Self { dir, library }
    }

    pub fn images(&self) -> PathBuf {
        self.dir.join("data/images")
    }

    pub fn import(&self, name: &str, path: &Path) -> Result<Template, TemplateError> {
        import(&self.library, &Request::new(name), path, &())
    }

    /// A path below a layer of a template.
    pub fn in_layer(&self, template: &Template, layer: usize, path: &str) -> PathBuf {
        self.library.layer_tree(&template.layers[layer]).join(path)
    }

    pub fn names(&self, dir: &str) -> Vec<String> {
        let list = std::fs::read_dir(self.images().join(dir)).unwrap();
        list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Neither template nor layer nor anything half-made.
    pub fn assert_empty(&self, when: &str) {
        for dir in ["templates", "layers", "drafts"] {
            assert_eq!(self.names(dir), Vec::<String>::new(), "{dir}: {when}");
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for template in self.library.list().unwrap() {
            assert!(self.library.remove(&template.name).unwrap());
        }
        self.library.prune().unwrap();
        self.assert_empty("after everything was removed and pruned");
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

/// What ids of an image are on disk here. None where owners are not kept.
pub fn on_disk(id: u32) -> Option<u32> {
    match confined::id_map() {
        IdMap::Range { .. } => Some(id),
        IdMap::Subordinate { user, .. } if id == 0 => Some(user.0),
        IdMap::Subordinate { start, .. } => Some(start.0 + id - 1),
        IdMap::Single { .. } => None,
    }
}

/// No worker outlives its task.
pub fn assert_gone() {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let begin = std::time::Instant::now();
    loop {
        let left: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter(|entry| {
                std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == own)
            })
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
            .filter(|line| line.contains("__confined"))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed().as_secs() < 30, "workers are left: {left:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn clean() {
    let _ = std::fs::remove_dir_all(&*BASE);
}
