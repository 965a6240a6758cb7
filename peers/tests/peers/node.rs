//! Node's own servers, which close idle connections.

use std::{process::Command, time::Duration};

use http::Version;
use reqwest_safe_retry::Endpoint;

use crate::{
    acts::Acts,
    load::{Load, Pause},
    process::{Process, folder, free_port, until_open},
};

const IDLE: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn no_post_is_done_twice_when_node_closes_idle_connections() {
    let folder = folder("node-edge");
    let acts = Acts::new(&folder);
    let (h1, h2) = (free_port(), free_port());
    let mut command = Command::new("node");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/node.js");
    command.arg(script).args([h1.to_string(), h2.to_string(), IDLE.as_millis().to_string()]).arg(acts.file());
    let _node = Process::start(&mut command, "nodejs", &folder);
    until_open(h1);
    until_open(h2);
    let scenes = [(h1, Version::HTTP_11, "Node, keep-alive edge, HTTP/1"), (h2, Version::HTTP_2, "Node, idle session, HTTP/2")];
    for (port, version, scene) in scenes {
        let load = Load {
            url: format!("http://127.0.0.1:{port}/"),
            version,
            endpoint: Endpoint::unprotected_write(),
            workers: 25,
            posts: 80,
            pause: Pause::at_the_edge_of(IDLE),
        };
        load.table(scene, &acts).await;
    }
}
