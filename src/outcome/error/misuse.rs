//! How a request can be used wrongly, which is noticed before anything is sent.

use std::{error::Error, fmt};

use crate::{
    policy::{Evidence, InvalidKey},
    request::replay::ReplayError,
};

/// How a request was used wrongly. Its text says what to do instead.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Endpoint, KeyContract, Misuse, RetryError, SafeRetry, policy::KeySource};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = SafeRetry::new().client(reqwest::Client::builder()).redirects_off().build()?;
/// let callers_key = Endpoint::keyed_write(KeyContract::STRIPE.with_source(KeySource::CallerMust));
/// let error = client.post("https://api.example/orders").with_extension(callers_key).send().await.unwrap_err();
/// // Nothing was sent.
/// assert!(matches!(RetryError::find(&error), Some(RetryError::Misused(Misuse::MissingKey))));
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub enum Misuse {
    /// The contract wants the caller's key, and the request has none.
    MissingKey,
    /// The key breaks the contract's format or length.
    InvalidKey(InvalidKey),
    /// The request carries more than one key: two header lines, or a header and an extension that
    /// differ.
    SeveralKeys,
    /// The request carries a key, but nothing says that the server honours one.
    KeyWithoutContract,
    /// The key was used before with another request, where it has to be unique and within its
    /// lifetime.
    KeyReused,
    /// The key was first used so long ago that the server may have forgotten it: sending it is a
    /// new operation. What became of the old one is unknown.
    KeyExpired,
    /// The factory of the request's body, or of the whole request, failed before the first attempt.
    FactoryFailed(Box<dyn Error + Send + Sync>),
}

impl Misuse {
    /// What is proven about the operation. Nothing was sent now; but a key that has expired was
    /// sent before, and then it may have done its work.
    pub(crate) const fn evidence(&self) -> Evidence {
        match self {
            Self::KeyExpired => Evidence::Unknown,
            Self::MissingKey
            | Self::InvalidKey(_)
            | Self::SeveralKeys
            | Self::KeyWithoutContract
            | Self::KeyReused
            | Self::FactoryFailed(_) => Evidence::Unprocessed,
        }
    }

    pub(super) fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::FactoryFailed(error) => Some(&**error),
            Self::InvalidKey(error) => Some(error),
            Self::MissingKey | Self::SeveralKeys | Self::KeyWithoutContract | Self::KeyReused | Self::KeyExpired => None,
        }
    }
}

impl fmt::Debug for Misuse {
    /// Without the factory's own error, which may say anything; it is the `source()` of the
    /// [`RetryError`](super::RetryError).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingKey => "MissingKey",
            Self::InvalidKey(error) => return f.debug_tuple("InvalidKey").field(error).finish(),
            Self::SeveralKeys => "SeveralKeys",
            Self::KeyWithoutContract => "KeyWithoutContract",
            Self::KeyReused => "KeyReused",
            Self::KeyExpired => "KeyExpired",
            Self::FactoryFailed(_) => "FactoryFailed(..)",
        })
    }
}

impl fmt::Display for Misuse {
    /// What is wrong, what to do about it, and where the guide says more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingKey => {
                "the contract wants the caller's idempotency key, and there is none: give the request an IdempotencyKey (guide::keys)"
            }
            Self::InvalidKey(_) => "the idempotency key breaks its contract: make one of the contract's format and length (guide::keys)",
            Self::SeveralKeys => "there is more than one idempotency key: give one, as a header or as an extension (guide::keys)",
            Self::KeyWithoutContract => {
                "there is an idempotency key, but no contract says that the server honours one: state Endpoint::keyed_write (guide::keys)"
            }
            Self::KeyReused => {
                "the idempotency key was used before with another request: give every operation a key of its own (guide::keys)"
            }
            Self::KeyExpired => {
                "the idempotency key was first used longer ago than the server remembers it: look at the state first (guide::keys)"
            }
            Self::FactoryFailed(error) => {
                return match error.downcast_ref() {
                    Some(ReplayError::Factory(_)) | None => f.write_str(
                        "the factory of the request or its body failed before the first attempt: correct what its error, the source, tells",
                    ),
                    Some(made) => write!(f, "{made}, for the first attempt: let it make the operation's own"),
                };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::every_variant;

    #[test]
    fn every_misuse_says_what_is_wrong_and_what_to_do() {
        let misuses = every_variant!(Misuse {
            MissingKey => Misuse::MissingKey,
            InvalidKey => Misuse::InvalidKey(crate::IdempotencyKey::parse("").unwrap_err()),
            SeveralKeys => Misuse::SeveralKeys,
            KeyWithoutContract => Misuse::KeyWithoutContract,
            KeyReused => Misuse::KeyReused,
            KeyExpired => Misuse::KeyExpired,
            FactoryFailed => Misuse::FactoryFailed("SECRET".into()),
        });
        for misuse in misuses {
            let said = misuse.to_string();
            let (wrong, what_to_do) = said.split_once(": ").unwrap_or_else(|| panic!("{said}"));
            assert!(!wrong.is_empty() && !what_to_do.is_empty() && !said.contains("SECRET"), "{said}");
            // The guide has no page on factories: `ReplayBody` says it all.
            assert!(matches!(misuse, Misuse::FactoryFailed(_)) || said.ends_with("(guide::keys)"), "{said}");
        }
    }
}
