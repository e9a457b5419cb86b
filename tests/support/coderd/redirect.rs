//! `CODER_REDIRECT_TO_ACCESS_URL`: whoever does not come by the access URL is sent there, before anything else looks at
//! the request. It never redirects `/healthz`, and never answers for coderd itself.

use http::{HeaderMap, StatusCode, header};

use super::pipeline::Inbound;
use super::reply::Reply;
use super::server::Coderd;

const FORWARDED_HOST: &str = "x-forwarded-host";

/// An access URL, with or without a path.
#[derive(Clone, Debug)]
pub(super) struct AccessUrl {
    text: String,
    /// With the port if the URL names one.
    host: String,
    https: bool,
}

impl AccessUrl {
    fn parse(text: &str) -> Self {
        let uri: http::Uri = text.parse().expect("an access URL");
        let host = uri.authority().expect("an access URL has a host").to_string();
        Self { text: text.to_owned(), host, https: uri.scheme_str() == Some("https") }
    }

    /// The redirect that a request gets, if it gets one.
    pub(super) fn redirect(&self, inbound: &Inbound) -> Option<Reply> {
        let is = |name: &str| header_text(&inbound.headers, name) == Some(self.host.as_str());
        let welcome = (!self.https || inbound.over_tls) && (is("host") || is(FORWARDED_HOST));
        if inbound.path == "/healthz" || welcome {
            return None;
        }
        // As Go's http.Redirect writes it: a page for whoever reads one, nothing for whoever sent something.
        let reply = match inbound.method.as_str() {
            "GET" => {
                let page = format!("<a href=\"{}\">Temporary Redirect</a>.\n\n", self.text);
                Reply::typed(StatusCode::TEMPORARY_REDIRECT, "text/html; charset=utf-8", page)
            }
            _ => Reply::empty(StatusCode::TEMPORARY_REDIRECT),
        };
        Some(reply.with(header::LOCATION, &self.text))
    }
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

impl Coderd {
    /// Makes this its access URL and redirects everybody who does not come by it; none ends the redirects.
    ///
    /// # Panics
    /// If it is no URL with a host.
    pub fn redirect_to_access_url(&self, url: Option<&str>) {
        let mut state = self.state();
        if let Some(url) = url {
            // It names itself by it everywhere.
            url.clone_into(&mut state.url);
        }
        state.redirect = url.map(AccessUrl::parse);
    }
}
