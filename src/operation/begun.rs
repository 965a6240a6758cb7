//! A first send of which nobody was told yet.

#[cfg(feature = "metrics")]
use crate::observe::Meters;
use crate::{
    observe::{OperationFacts, Telemetry, Watched},
    operation::plan::Light,
    operation::supply::Supply,
    platform::Instant,
};

/// A first send that is on its way, or came back.
pub(crate) struct Begun {
    pub(crate) started: Instant,
    #[cfg(feature = "metrics")]
    pub(crate) meters: Option<Meters>,
}

impl Begun {
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "only metrics tell of a send that begins"))]
    pub(super) fn now(light: &Light<'_>, supply: &Supply) -> Self {
        #[cfg(feature = "metrics")]
        let meters = supply.template().map(|request| Meters::of(&light.facts(request), &light.settings.telemetry));
        #[cfg(feature = "metrics")]
        if let Some(meters) = &meters {
            meters.attempt();
        }
        Self {
            started: Instant::now(),
            #[cfg(feature = "metrics")]
            meters,
        }
    }

    /// The operation as it is watched from here on.
    pub(crate) fn watched<'a>(&self, telemetry: &'a Telemetry, operation: OperationFacts<'a>) -> Watched<'a> {
        Watched::sent_once(
            telemetry,
            operation,
            #[cfg(feature = "metrics")]
            self.meters.clone(),
        )
    }

    pub(super) fn went_well(&self) {
        #[cfg(feature = "metrics")]
        if let Some(meters) = &self.meters {
            meters.went_well();
        }
    }
}
