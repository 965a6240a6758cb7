//! Lists that the compiler keeps complete.

/// An array with one item or more for each variant of an enum: without an item for each of them it
/// does not compile. A bare name stands for the variant itself.
macro_rules! every_variant {
    ($type:ident { $($variant:ident => $item:expr),+ $(,)? }) => {{
        #[allow(unreachable_patterns, clippy::unneeded_struct_pattern, reason = "a variant may carry something and have several items")]
        const _: fn(&$type) = |value| match value {
            $($type::$variant { .. } => {})+
        };
        [$($item),+]
    }};
    ($type:ident { $($variant:ident),+ $(,)? }) => {
        $crate::policy::every_variant!($type { $($variant => $type::$variant),+ })
    };
}

pub(crate) use every_variant;
