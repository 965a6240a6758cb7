//! TLS in front of the HTTP/1 server, with a certificate authority of its own.

use std::{fmt, io, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    connection::{Connection, Faults, Socket, reset_when_dropped},
    fault::Fault,
    fault_server::FaultServer,
    ledger::Shared,
    script::Script,
};

/// TLS for a [`FaultServer`]: a new certificate authority, a certificate of it for `localhost` and
/// `127.0.0.1`, and how the handshakes go.
///
/// No client trusts it by itself: give the client [`Tls::root_pem`], or do not, to rehearse an
/// untrusted certificate.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::{Fault, FaultServer, Handshake, Tls};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reqwest::Error> {
/// let tls = Tls::new().with_handshakes([Handshake::Reset, Handshake::Complete]);
/// let server = FaultServer::start_tls(&tls, [Fault::ok("done")]).await;
///
/// let root = reqwest::Certificate::from_pem(tls.root_pem().as_bytes())?;
/// let client = reqwest::Client::builder().tls_certs_only([root]).build()?;
/// assert!(client.get(server.url("/")).send().await.is_err());
/// assert_eq!(client.get(server.url("/")).send().await?.text().await?, "done");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    root: String,
    config: Arc<ServerConfig>,
    handshakes: Vec<Handshake>,
}

/// How a server meets the beginning of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handshake {
    /// As it should be.
    Complete,
    /// Reads what the client says and never answers.
    Hang,
    /// Closes (FIN) after the client's first bytes.
    Close,
    /// Resets after the client's first bytes.
    Reset,
    /// Answers in plain HTTP, then closes.
    Plaintext,
}

impl Tls {
    /// A new authority and certificate; every handshake completes.
    ///
    /// # Panics
    /// Panics if no key can be generated.
    #[must_use]
    pub fn new() -> Self {
        Self::generate().unwrap_or_else(|error| panic!("no test certificate could be made: {error}"))
    }

    /// How the handshakes go, one step for each connection. The last step repeats.
    #[must_use]
    pub fn with_handshakes(self, handshakes: impl IntoIterator<Item = Handshake>) -> Self {
        Self { handshakes: handshakes.into_iter().collect(), ..self }
    }

    /// The authority's certificate in PEM, for a client that shall trust it.
    #[must_use]
    pub fn root_pem(&self) -> &str {
        &self.root
    }

    fn generate() -> Result<Self, Box<dyn std::error::Error>> {
        let mut authority = CertificateParams::new([])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let root = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let key = KeyPair::generate()?;
        let names = ["localhost", "127.0.0.1"].map(String::from);
        let leaf = CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone(), root.der().clone()];

        // Named outright: with several providers in one build, rustls would refuse to choose.
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
        Ok(Self { root: root.pem(), config: Arc::new(config), handshakes: Vec::new() })
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("handshakes", &self.handshakes).finish_non_exhaustive()
    }
}

impl FaultServer {
    /// Starts a server behind TLS that plays these steps, see [`FaultServer::start`]. A connection
    /// whose handshake fails takes no step.
    ///
    /// # Panics
    /// Panics if the loopback can't be listened on.
    pub async fn start_tls(tls: &Tls, steps: impl IntoIterator<Item = Fault, IntoIter: Send + 'static>) -> Self {
        let faults = Faults::steps(steps);
        let handshakes = Arc::new(Script::new(tls.handshakes.clone(), Handshake::Complete));
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
        let serve = move |socket, number, shared| {
            let (acceptor, faults, handshake) = (acceptor.clone(), Arc::clone(&faults), handshakes.take());
            async move { drop(serve(handshake, &acceptor, socket, number, shared, faults).await) }
        };
        Self::listen("https", serve).await
    }
}

async fn serve(
    handshake: Handshake,
    acceptor: &TlsAcceptor,
    mut socket: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    faults: Arc<Faults>,
) -> io::Result<()> {
    match handshake {
        Handshake::Complete => return Connection::new(acceptor.accept(socket).await?, number, shared, faults).serve().await,
        Handshake::Reset => {
            socket.peek(&mut [0]).await?;
            return reset_when_dropped(&socket);
        }
        Handshake::Close => {
            socket.peek(&mut [0]).await?;
            socket.shutdown().await?;
        }
        Handshake::Plaintext => {
            socket.peek(&mut [0]).await?;
            socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await?;
            socket.shutdown().await?;
        }
        Handshake::Hang => {}
    }
    // What the client still says is thrown away until it leaves: closing with bytes unread would be
    // a reset.
    tokio::io::copy(&mut socket, &mut tokio::io::sink()).await.map(drop)
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }

    fn peekable(&self) -> Option<&TcpStream> {
        None
    }
}
