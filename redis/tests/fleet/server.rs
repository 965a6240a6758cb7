//! A store of the test's own: `redis-server` or `valkey-server` on a free port of this machine,
//! which ends with its handle.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// A running store.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_on(free_port())
    }

    pub(crate) fn start_on(port: u16) -> Self {
        let child = Command::new(program())
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        for _ in 0..500 {
            if server.try_ask(redis::cmd("PING")).is_ok() {
                return server;
            }
            pause(Duration::from_millis(10));
        }
        panic!("the store on port {port} does not answer");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn client(&self) -> redis::Client {
        redis::Client::open(url(self.port)).unwrap()
    }

    /// Asks the store for what a test wants to know or to spoil.
    pub(crate) fn ask<T: redis::FromRedisValue>(&self, command: redis::Cmd) -> T {
        redis::from_redis_value(self.try_ask(command).unwrap()).unwrap()
    }

    fn try_ask(&self, command: redis::Cmd) -> redis::RedisResult<redis::Value> {
        command.query(&mut self.client().get_connection_with_timeout(Duration::from_secs(1))?)
    }

    /// SIGSTOP: it takes connections and commands, and answers nothing.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    /// SIGKILL. What it knew is gone.
    pub(crate) fn kill(mut self) -> u16 {
        self.end();
        self.port
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// `REDIS_SERVER`, or the first that is on the path.
fn program() -> PathBuf {
    if let Some(given) = env::var_os("REDIS_SERVER") {
        return given.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).flat_map(|folder| ["redis-server", "valkey-server"].map(|name| folder.join(name)));
    places.into_iter().find(|place| fs::metadata(place).is_ok()).expect(
        "these tests need a store: install redis-server or valkey-server (Debian: apt-get install redis-server), or name one in REDIS_SERVER",
    )
}
