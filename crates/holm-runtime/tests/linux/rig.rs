//! A driver with directories of its own, and what tests ask of its sandboxes.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use holm_runtime::{
    Driver as _, DriverError, Guest, LinuxDriver, LinuxOptions, Machine, Root, SandboxSpec,
};

/// This program, which is also the guest.
pub fn own_guest() -> Guest {
    let program = std::fs::read("/proc/self/exe").expect("read this program");
    Guest { program: Box::leak(program.into_boxed_slice()), build: None }
}

/// Directories of all tests of this run; removed by the last one.
static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
    // A child of the test program is told its parent's directory.
    if let Some(dir) = std::env::args().nth(2) {
        return dir.into();
    }
    let dir = std::env::temp_dir().join(format!("holm-rt-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("make the test directory");
    dir
});

/// Where they are.
pub fn base() -> &'static Path {
    &BASE
}

/// Removes them.
pub fn clean() {
    let _ = std::fs::remove_dir_all(&*BASE);
}

pub struct Rig {
    pub driver: LinuxDriver,
    pub runtime: tokio::runtime::Runtime,
}

pub fn options() -> LinuxOptions {
    let mut options = LinuxOptions::new("/proc/self/exe");
    options.data_dir = Some(BASE.join("data"));
    options.runtime_dir = Some(BASE.join("run"));
    options.blank = spec().shape();
    options.blanks = 0;
    options
}

pub fn spec() -> SandboxSpec {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    SandboxSpec {
        id: format!("sbx_{:08x}{:010x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)),
        hostname: "island".into(),
        root: Root::Host,
        vcpus: 1,
        memory_bytes: 256 << 20,
        disk_bytes: 64 << 20,
        disk_inodes: 4096,
        max_processes: 100,
        mounts: Vec::new(),
    }
}

impl Rig {
    pub fn new(options: LinuxOptions) -> Self {
        let driver = LinuxDriver::start(options).expect("start the driver");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("make a runtime");
        Self { driver, runtime }
    }

    pub fn create(&self, spec: SandboxSpec) -> Result<Box<dyn Machine>, DriverError> {
        self.runtime.block_on(self.driver.create(spec))
    }

    pub fn destroy(&self, machine: &dyn Machine) {
        self.runtime.block_on(machine.destroy()).expect("destroy");
    }

    pub fn close(self) {
        self.runtime.block_on(self.driver.shutdown());
    }
}

/// What a script prints, with `exit CODE` at its end.
pub fn sh(machine: &dyn Machine, user: &str, script: &str) -> String {
    ask(machine.guest_socket(), &format!("{user}\n{script}")).expect("ask the guest")
}

pub fn ask(socket: &Path, text: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
