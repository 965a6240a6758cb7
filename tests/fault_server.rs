//! Each fault of the `FaultServer`, as plain reqwest sees it.

use std::time::Duration;

use reqwest_safe_retry::testing::{Fault, FaultServer};

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5)).build().unwrap()
}

#[tokio::test]
async fn an_answer_arrives_as_scripted_and_the_last_step_repeats() {
    let server = FaultServer::start([Fault::status(503).with_retry_after(2), Fault::ok("done")]).await;
    let first = client().get(server.url("/a?b=c")).send().await.unwrap();
    assert_eq!((first.status().as_u16(), &first.headers()["retry-after"]), (503, &"2".parse().unwrap()));
    for _ in 0..2 {
        assert_eq!(client().get(server.url("/a?b=c")).send().await.unwrap().text().await.unwrap(), "done");
    }
    server.assert_requests(3);
    server.assert_writes(0);
    let requests = server.requests();
    assert_eq!((requests[0].path(), requests[0].query()), ("/a", Some("b=c")));
    assert_eq!(requests[0].url(), &server.url("/a?b=c"));
}
