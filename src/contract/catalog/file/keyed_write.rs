//! What stands in `keyed_write`: the contract of a key.

use std::{ops::RangeInclusive, time::Duration};

use serde::Deserialize;

use super::{
    refusal::Refusal,
    values::{Header, Limit, Status, given},
};
use crate::{
    contract::presets,
    policy::{KeyContract, KeyFormat, KeySource, Replays, UniqueWithin},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyedWrite {
    preset: Option<Preset>,
    header: Option<Header>,
    format: Option<Format>,
    remembered_for: Option<Limit>,
    source: Option<Source>,
    unique_within: Option<Within>,
    replays: Option<Replayed>,
    shortest: Option<usize>,
    longest: Option<usize>,
    in_progress: Option<Status>,
    mismatch: Option<Status>,
    replay_marker: Option<Header>,
    first_sent_header: Option<Header>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Preset {
    Stripe,
    StripeV1,
    StripeV2,
    Ietf,
    Oasis,
    AzureCommunication,
    PaypalOrders,
    PaypalPayments,
    Adyen,
    CheckoutCom,
    Truelayer,
    Whop,
    Fullstory,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Format {
    Bare,
    Quoted,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Generate,
    CallerMust,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Within {
    Account,
    Endpoint,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Replayed {
    Everything,
    Successes,
    Settled,
}

impl KeyedWrite {
    pub(super) fn contract(self) -> Result<KeyContract, Refusal> {
        let contract = self.basis()?;
        let length = self.length(&contract)?;
        let contract = given(contract, length, KeyContract::with_length);
        let contract = given(contract, self.source.map(KeySource::from), KeyContract::with_source);
        let contract = given(contract, self.unique_within.map(UniqueWithin::from), KeyContract::with_uniqueness);
        let contract = given(contract, self.replays.map(Replays::from), KeyContract::with_replays);
        let contract = given(contract, self.in_progress, |contract, Status(status)| contract.with_in_progress(status));
        let contract = given(contract, self.mismatch, |contract, Status(status)| contract.with_mismatch(status));
        let contract = given(contract, self.replay_marker, |contract, Header(header)| contract.with_replay_marker(header));
        Ok(given(contract, self.first_sent_header, |contract, Header(header)| contract.with_first_sent_header(header)))
    }

    /// The contract that the other facts are added to: the preset's, or one of the header's own.
    fn basis(&self) -> Result<KeyContract, Refusal> {
        let memory = self.remembered_for.as_ref().map(|Limit(time)| *time);
        match (self.preset, &self.header, self.format) {
            (Some(preset), None, None) => preset.contract(memory),
            (Some(_), Some(_), _) | (Some(_), None, Some(_)) => Err(PRESET_AND_HEADER),
            (None, None, _) => Err(WITHOUT_HEADER),
            (None, Some(_), None) => Err(WITHOUT_FORMAT),
            (None, Some(Header(header)), Some(format)) => {
                Ok(KeyContract::new(header.clone(), format.into(), memory.ok_or(WITHOUT_MEMORY)?))
            }
        }
    }

    /// The length that a key may have, where the file says something about it.
    fn length(&self, contract: &KeyContract) -> Result<Option<RangeInclusive<usize>>, Refusal> {
        if self.shortest.is_none() && self.longest.is_none() {
            return Ok(None);
        }
        let length = contract.length();
        let length = self.shortest.unwrap_or(*length.start())..=self.longest.unwrap_or(*length.end());
        if length.is_empty() { Err(EMPTY_LENGTH) } else { Ok(Some(length)) }
    }
}

const PRESET_AND_HEADER: Refusal = Refusal { field: ".effect.keyed_write.preset", message: "a preset has its own header and format" };
const WITHOUT_HEADER: Refusal = Refusal { field: ".effect.keyed_write.header", message: "missing field: a preset, or a header" };
const WITHOUT_FORMAT: Refusal = Refusal { field: ".effect.keyed_write.format", message: "missing field: \"bare\" or \"quoted\"" };
const WITHOUT_MEMORY: Refusal =
    Refusal { field: ".effect.keyed_write.remembered_for", message: "missing field: how long the server remembers a key" };
const EMPTY_LENGTH: Refusal = Refusal { field: ".effect.keyed_write.longest", message: "no key is that short and that long" };

impl From<Format> for KeyFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Bare => Self::Bare,
            Format::Quoted => Self::Quoted,
        }
    }
}

impl From<Source> for KeySource {
    fn from(source: Source) -> Self {
        match source {
            Source::Generate => Self::Generate,
            Source::CallerMust => Self::CallerMust,
        }
    }
}

impl From<Within> for UniqueWithin {
    fn from(within: Within) -> Self {
        match within {
            Within::Account => Self::Account,
            Within::Endpoint => Self::Endpoint,
        }
    }
}

impl From<Replayed> for Replays {
    fn from(replays: Replayed) -> Self {
        match replays {
            Replayed::Everything => Self::Everything,
            Replayed::Successes => Self::Successes,
            Replayed::Settled => Self::Settled,
        }
    }
}

impl Preset {
    /// A memory in the file is the server's word, or a more careful one.
    fn contract(self, memory: Option<Duration>) -> Result<KeyContract, Refusal> {
        let contract = match self {
            Self::Stripe | Self::StripeV1 => presets::STRIPE_V1,
            Self::StripeV2 => presets::STRIPE_V2,
            Self::Ietf => KeyContract::ietf(memory.ok_or(WITHOUT_MEMORY)?),
            Self::Oasis => presets::oasis(memory.ok_or(WITHOUT_MEMORY)?),
            Self::AzureCommunication => presets::AZURE_COMMUNICATION,
            Self::PaypalOrders => presets::PAYPAL_ORDERS,
            Self::PaypalPayments => presets::PAYPAL_PAYMENTS,
            Self::Adyen => presets::ADYEN,
            Self::CheckoutCom => presets::CHECKOUT_COM,
            Self::Truelayer => presets::TRUELAYER,
            Self::Whop => presets::WHOP,
            Self::Fullstory => presets::FULLSTORY,
        };
        Ok(given(contract, memory, KeyContract::with_remembered_for))
    }
}
