//! A certificate authority of the run's own, and the server's certificate of it. `no_tls.rs` stands
//! in its place without the feature `testing-tls`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::Certificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivatePkcs8KeyDer},
    server::TlsStream,
};

/// What ALPN calls HTTP/2.
const H2: &[u8] = b"h2";

/// The server's side.
#[derive(Clone)]
pub(super) struct Acceptor(TlsAcceptor);

impl Acceptor {
    /// The stream behind a handshake, and whether HTTP/2 is spoken on it.
    pub(super) async fn accept<I: AsyncRead + AsyncWrite + Unpin>(&self, stream: I) -> Option<(TlsStream<I>, bool)> {
        let stream = self.0.accept(stream).await.ok()?;
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Some((stream, is_h2))
    }
}

/// The authority, for the clients.
pub(crate) struct Authority(Certificate);

impl Authority {
    /// Has a client trust nobody else.
    pub(crate) fn alone(&self, builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
        builder.tls_certs_only([self.0.clone()])
    }
}

pub(super) fn make() -> Result<(Acceptor, Authority)> {
    let mut authority = CertificateParams::new([])?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let root = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()])?.signed_by(&key, &Issuer::new(authority, authority_key))?;

    // Named outright: with several providers in one build, rustls would refuse to choose.
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    let root = Certificate::from_pem(root.pem().as_bytes()).context("the upstream's certificate")?;
    Ok((Acceptor(TlsAcceptor::from(Arc::new(config))), Authority(root)))
}
