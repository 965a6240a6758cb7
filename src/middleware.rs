//! stub

/// stub
#[derive(Debug, Clone)]
pub struct SafeRetry;

impl SafeRetry {
    /// stub
    pub fn new() -> Self {
        Self
    }
}

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for SafeRetry {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        next.run(request, extensions).await
    }
}
