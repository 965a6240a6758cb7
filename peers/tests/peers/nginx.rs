//! nginx before an application: it closes idle connections, reloads, and refuses what is too much.

use std::{fs, process::Command, time::Duration};

use http::{StatusCode, Version};
use reqwest_safe_retry::Endpoint;
use tokio::time::sleep;

use crate::{
    acts::Acts,
    load::{Load, Pause},
    process::{Process, folder, free_port, until_open},
    upstream,
};

const IDLE: Duration = Duration::from_millis(50);
/// Longer than a test pauses.
const LONG: Duration = Duration::from_secs(60);

struct Nginx {
    process: Process,
    acts: Acts,
    h1: u16,
    h2: u16,
}

impl Nginx {
    async fn start(name: &str, idle: Duration) -> Self {
        let folder = folder(name);
        let acts = Acts::new(&folder);
        let app = upstream::serve(&acts, Duration::ZERO).await;
        let (h1, h2) = (free_port(), free_port());
        let config = include_str!("nginx.conf")
            .replace("{idle}", &idle.as_millis().to_string())
            .replace("{app}", &app.to_string())
            .replace("{h1}", &h1.to_string())
            .replace("{h2}", &h2.to_string());
        fs::write(folder.join("nginx.conf"), config).unwrap();
        let mut command = Command::new("nginx");
        let process = Process::start(command.arg("-p").arg(&folder).args(["-c", "nginx.conf", "-e", "error.log"]), "nginx", &folder);
        until_open(h1);
        until_open(h2);
        Self { process, acts, h1, h2 }
    }

    fn load(&self, version: Version, path: &str, pause: Pause) -> Load {
        let port = if version == Version::HTTP_2 { self.h2 } else { self.h1 };
        let url = format!("http://127.0.0.1:{port}{path}");
        Load { url, version, endpoint: Endpoint::unprotected_write(), workers: 25, posts: 80, pause }
    }

    /// Reloads until dropped.
    async fn reload_again_and_again(&self) {
        loop {
            sleep(Duration::from_millis(150)).await;
            self.process.signal("HUP");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_post_is_done_twice_when_nginx_closes_idle_connections() {
    let nginx = Nginx::start("nginx-edge", IDLE).await;
    nginx.load(Version::HTTP_11, "/", Pause::at_the_edge_of(IDLE)).table("nginx, keep-alive edge, HTTP/1", &nginx.acts).await;
    nginx.load(Version::HTTP_2, "/", Pause::at_the_edge_of(IDLE)).table("nginx, keep-alive edge, HTTP/2", &nginx.acts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_post_is_done_twice_when_nginx_reloads() {
    let nginx = Nginx::start("nginx-reload", LONG).await;
    for (version, scene) in [(Version::HTTP_11, "nginx, reload under load, HTTP/1"), (Version::HTTP_2, "nginx, reload under load, HTTP/2")]
    {
        let load = nginx.load(version, "/", Pause { least: Duration::ZERO, most: Duration::from_millis(20) });
        tokio::select! {
            _ = load.table(scene, &nginx.acts) => {}
            () = nginx.reload_again_and_again() => {}
        }
    }
}

/// Who knows that nginx refuses before the application hears of it says so.
#[tokio::test(flavor = "multi_thread")]
async fn what_limit_req_refuses_is_sent_again_and_never_done_twice() {
    let nginx = Nginx::start("nginx-limit", LONG).await;
    let endpoint = Endpoint::unprotected_write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS);
    let pause = Pause { least: Duration::from_millis(100), most: Duration::from_millis(300) };
    let load = Load { endpoint, posts: 20, ..nginx.load(Version::HTTP_11, "/limited", pause) };
    let [reqwest, _, safe] = load.table("nginx, limit_req", &nginx.acts).await;
    assert!(reqwest.done < safe.done, "nothing was refused, or nothing of it was sent again");
}
