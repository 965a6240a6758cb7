//! A person who knows better than a server that asked for a century: lifts what holds a client back
//! for too long.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, interval};

use crate::{fleet::Member, limits::LONGEST_HOLD};

/// Looks after the clients until dropped.
pub(crate) async fn look_after(members: Arc<Vec<Member>>) {
    let mut rounds = interval(Duration::from_millis(200));
    loop {
        rounds.tick().await;
        let held = members.iter().filter_map(|member| Some((member, member.cooldown.as_ref()?)));
        for (member, (cooldown, holds)) in held {
            let now = Instant::now();
            if cooldown.release(member.scope(), now).is_some_and(|until| until > now + LONGEST_HOLD) {
                cooldown.lift(member.scope());
                holds.lift();
            }
        }
    }
}
