//! Real servers in front of `reqwest-safe-retry`: what they do at the edge of keep-alive, while
//! they reload and while their workers die. Everything stands in `tests/peers`.
