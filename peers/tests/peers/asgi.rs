//! An ASGI application in workers of gunicorn and uvicorn, which are killed when they have done what
//! they were asked and have not answered yet.

use std::{process::Command, time::Duration};

use http::Version;
use reqwest_safe_retry::Endpoint;

use crate::{
    acts::Acts,
    load::{Load, Pause},
    process::{Process, folder, free_port},
};

#[tokio::test(flavor = "multi_thread")]
async fn no_post_is_done_twice_when_a_worker_is_killed_before_it_answers() {
    let folder = folder("asgi-killed");
    let acts = Acts::new(&folder);
    let port = free_port();
    let mut command = Command::new("gunicorn");
    command
        .args(["--chdir", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers"), "--bind", &format!("127.0.0.1:{port}")])
        .args(["--workers", "4", "--worker-class", "uvicorn.workers.UvicornWorker", "asgi:app"])
        .envs([("DIES_AFTER", "40"), ("PYTHONDONTWRITEBYTECODE", "1")])
        .env("ACTS", acts.file());
    let mut gunicorn = Process::start(&mut command, "gunicorn", &folder);
    gunicorn.until_open(port, &[("No module named 'uvicorn'", "python3-uvicorn")]);
    let load = Load {
        url: format!("http://127.0.0.1:{port}/"),
        version: Version::HTTP_11,
        endpoint: Endpoint::unprotected_write(),
        workers: 25,
        posts: 80,
        pause: Pause { least: Duration::ZERO, most: Duration::from_millis(20) },
    };
    let [reqwest, reqwest_retry, safe] = load.table("gunicorn with uvicorn, worker killed after commit, HTTP/1", &acts).await;
    for (row, who) in [(&reqwest, "reqwest"), (&safe, "this crate")] {
        assert!(row.answered() < row.done, "no answer to {who} was lost");
    }
    assert!(reqwest_retry.twice > 0, "who sends again whatever happened repeated nothing");
}
