//! HAProxy before an application: without a backend, with a queue that is too long, and while one
//! process hands over to the next.

use std::{
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use http::{StatusCode, Version};
use reqwest_safe_retry::Endpoint;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use crate::{
    acts::Acts,
    load::{Load, Pause},
    process::{Process, folder, free_port, until_open},
    upstream,
};

/// How many requests the application gets at once, how long each takes, and how long the others wait.
struct Queue {
    at_once: u32,
    takes: Duration,
    patience: Duration,
}

impl Queue {
    /// Room for every request.
    const NONE: Self = Self { at_once: 100, takes: Duration::ZERO, patience: Duration::from_secs(10) };
    /// For two at once, and so for 200 in a second.
    const SHORT: Self = Self { at_once: 2, takes: Duration::from_millis(10), patience: Duration::from_millis(30) };
}

struct Haproxy {
    /// The last one serves; those before it end when their work is done.
    processes: Vec<Process>,
    folder: PathBuf,
    acts: Acts,
    port: u16,
    admin: u16,
}

impl Haproxy {
    async fn start(name: &str, queue: Queue) -> Self {
        let folder = folder(name);
        let acts = Acts::new(&folder);
        let app = upstream::serve(&acts, queue.takes).await;
        let (port, admin) = (free_port(), free_port());
        let config = include_str!("haproxy.cfg")
            .replace("{admin}", &admin.to_string())
            .replace("{port}", &port.to_string())
            .replace("{app}", &app.to_string())
            .replace("{at_once}", &queue.at_once.to_string())
            .replace("{queue}", &queue.patience.as_millis().to_string());
        fs::write(folder.join("haproxy.cfg"), config).unwrap();
        let processes = vec![process(&folder, None)];
        until_open(port);
        Self { processes, folder, acts, port, admin }
    }

    fn load(&self, endpoint: Endpoint, pause: Pause) -> Load {
        let url = format!("http://127.0.0.1:{}/", self.port);
        Load { url, version: Version::HTTP_11, endpoint, workers: 25, posts: 80, pause }
    }

    /// Takes the backend away and gives it back until dropped.
    async fn lose_the_backend_again_and_again(&self) {
        for state in ["maint", "ready"].into_iter().cycle() {
            sleep(Duration::from_millis(150)).await;
            let mut admin = TcpStream::connect((Ipv4Addr::LOCALHOST, self.admin)).await.unwrap();
            admin.write_all(format!("set server app/app state {state}\n").as_bytes()).await.unwrap();
            let mut said = String::new();
            admin.read_to_string(&mut said).await.unwrap();
            assert_eq!(said.trim(), "");
        }
    }

    /// Starts the next process, which has the one before stop softly, until dropped.
    async fn hand_over_again_and_again(&mut self) {
        loop {
            sleep(Duration::from_millis(300)).await;
            let before = self.processes.last().map(Process::id);
            self.processes.push(process(&self.folder, before));
        }
    }
}

fn process(folder: &Path, before: Option<u32>) -> Process {
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f", "haproxy.cfg"]);
    if let Some(before) = before {
        command.args(["-sf", &before.to_string()]);
    }
    Process::start(&mut command, "haproxy", folder)
}

/// Who knows that the application itself never answers 503 says so.
fn trusting() -> Endpoint {
    Endpoint::unprotected_write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_haproxy_refuses_without_a_backend_is_sent_again_and_never_done_twice() {
    let haproxy = Haproxy::start("haproxy-backend", Queue::NONE).await;
    let load = haproxy.load(trusting(), Pause { least: Duration::ZERO, most: Duration::from_millis(20) });
    let [reqwest, _, safe] = tokio::select! {
        rows = load.table("HAProxy, no backend, HTTP/1", &haproxy.acts) => rows,
        () = haproxy.lose_the_backend_again_and_again() => unreachable!("it goes on"),
    };
    assert!(reqwest.done < safe.done, "nothing was refused, or nothing of it was sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_too_long_in_haproxy_is_sent_again_and_never_done_twice() {
    let haproxy = Haproxy::start("haproxy-queue", Queue::SHORT).await;
    let load = haproxy.load(trusting(), Pause { least: Duration::from_millis(50), most: Duration::from_millis(150) });
    let [reqwest, _, safe] = load.table("HAProxy, queue timeout, HTTP/1", &haproxy.acts).await;
    assert!(reqwest.done < safe.done, "nothing was refused, or nothing of it was sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_post_is_done_twice_when_haproxy_stops_softly() {
    let mut haproxy = Haproxy::start("haproxy-stop", Queue::NONE).await;
    let load = haproxy.load(Endpoint::unprotected_write(), Pause { least: Duration::ZERO, most: Duration::from_millis(20) });
    let acts = Acts::of(&haproxy.folder);
    tokio::select! {
        _ = load.table("HAProxy, soft stop under load, HTTP/1", &acts) => {}
        () = haproxy.hand_over_again_and_again() => {}
    }
    assert!(haproxy.processes.len() > 2, "nothing was handed over");
}
