//! Nothing: the models are tests.
