//! The application behind a proxy: does what it is asked, and notes it.

use std::{convert::Infallible, fs::OpenOptions, io::Write as _, net::Ipv4Addr, path::PathBuf, time::Duration};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, time::sleep};

use crate::{acts::Acts, load::OPERATION};

/// Serves until the test's runtime ends, and takes so long for each request.
pub(crate) async fn serve(acts: &Acts, takes: Duration) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = acts.file().to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let file = file.clone();
            let answer = service_fn(move |request| answer(request, file.clone(), takes));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    port
}

async fn answer(request: Request<Incoming>, file: PathBuf, takes: Duration) -> Result<Response<String>, Infallible> {
    let name = request.headers()[OPERATION].to_str().unwrap().to_owned();
    let mut answer = Response::new("done".to_owned());
    if request.into_body().collect().await.is_ok() {
        // One write for each line: those of several requests do not mix.
        OpenOptions::new().append(true).open(file).unwrap().write_all(format!("{name}\n").as_bytes()).unwrap();
        sleep(takes).await;
        *answer.status_mut() = StatusCode::CREATED;
    }
    Ok(answer)
}
