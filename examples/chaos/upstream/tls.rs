//! A certificate authority of the run's own, and the server's certificate of it.

use std::sync::Arc;

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivatePkcs8KeyDer},
};

/// What ALPN calls HTTP/2.
pub(super) const H2: &[u8] = b"h2";

/// The server's side, and the authority's certificate in PEM for the clients.
pub(super) fn make() -> Result<(TlsAcceptor, String)> {
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
    Ok((TlsAcceptor::from(Arc::new(config)), root.pem()))
}
