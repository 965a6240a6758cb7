//! Why HTTP/2 ends a stream or a connection.

/// An error code of HTTP/2 ([RFC 9113 §7](https://www.rfc-editor.org/rfc/rfc9113#section-7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct H2Reason(u32);

impl H2Reason {
    /// The end is in good order.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer broke the protocol, in a way that no other code says better.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// Something failed on this side.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more than the window allowed.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// The peer did not acknowledge the settings in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame came for a stream that was closed.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has an impossible length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// Nothing of the stream was processed ([RFC 9113
    /// §8.7](https://www.rfc-editor.org/rfc/rfc9113#section-8.7)).
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// The state of the header compression is lost.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection behind a CONNECT was lost.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes too much load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The connection is not secure enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request has to come over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0
    }
}
