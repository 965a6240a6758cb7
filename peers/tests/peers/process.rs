//! A server's process: started in a folder of its own, ended with its test.

#![expect(clippy::disallowed_methods, reason = "real processes take real time")]

use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Process {
    child: Child,
    /// What it printed.
    said: PathBuf,
}

impl Process {
    /// Starts a program. Where it is not installed, the test fails with the name of its package.
    pub(crate) fn start(command: &mut Command, package: &str, folder: &Path) -> Self {
        let said = folder.join("said");
        let file = File::create(&said).unwrap();
        match command.current_dir(folder).stdout(file.try_clone().unwrap()).stderr(file).spawn() {
            Ok(child) => Self { child, said },
            Err(error) if error.kind() == io::ErrorKind::NotFound => panic!("{package} is not installed, and this test needs it"),
            Err(error) => panic!("{package}: {error}"),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(sent.unwrap().success(), "{name} was not sent");
    }

    /// Waits until it listens. What it says when it lacks something names the package of that.
    pub(crate) fn until_open(&mut self, port: u16, lacks: &[(&str, &str)]) {
        let since = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if self.has_ended() {
                let said = fs::read_to_string(&self.said).unwrap();
                match lacks.iter().find(|(words, _)| said.contains(words)) {
                    Some((_, package)) => panic!("{package} is not installed, and this test needs it"),
                    None => panic!("it ended before it listened: {said}"),
                }
            }
            assert!(since.elapsed() < PATIENCE, "nobody listens on port {port}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        // Asked first: what is killed leaves its workers behind.
        self.signal("TERM");
        let since = Instant::now();
        while !self.has_ended() && since.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An empty folder for one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port that nobody has just now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens.
pub(crate) fn until_open(port: u16) {
    let since = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(since.elapsed() < PATIENCE, "nobody listens on port {port}");
        thread::sleep(Duration::from_millis(20));
    }
}
