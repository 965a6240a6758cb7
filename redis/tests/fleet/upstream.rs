//! The server that all processes call: it answers 200, and while it has had enough, 429 with the
//! time that is left.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

/// A request that arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) refused: bool,
}

#[derive(Clone)]
pub(crate) struct Upstream {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    /// How long a refusal takes.
    refusing_takes: Duration,
}

struct State {
    refuses_until: Instant,
    arrivals: Vec<Arrival>,
}

impl Upstream {
    pub(crate) async fn start(refusing_takes: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { refuses_until: Instant::now(), arrivals: Vec::new() }));
        let upstream = Self { address, state, refusing_takes };
        let accepting = upstream.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(connection));
            }
        });
        upstream
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// From now on, and for so long.
    pub(crate) fn refuse(&self, time: Duration) {
        self.state.lock().unwrap().refuses_until = Instant::now() + time;
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.state.lock().unwrap().arrivals.clone()
    }

    async fn serve(self, mut connection: TcpStream) {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = connection.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..read]);
            while let Some(end) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
                seen.drain(..end + 4);
                let answer = self.answer().await;
                if connection.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn answer(&self) -> String {
        let left = {
            let (mut state, at) = (self.state.lock().unwrap(), Instant::now());
            let left = state.refuses_until.saturating_duration_since(at);
            state.arrivals.push(Arrival { at, refused: !left.is_zero() });
            left
        };
        if left.is_zero() {
            return "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        sleep(self.refusing_takes).await;
        format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {}\r\ncontent-length: 0\r\n\r\n", left.as_secs_f64().ceil())
    }
}
