//! Who may ask: right host (no DNS rebinding), right origin (no foreign page), right token (no other user).

use super::Shop;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// The cookie that holds the token after the first page.
const COOKIE: &str = "lowtide";
/// Only what we serve ourselves may run, load or be asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub(super) async fn guard(State(shop): State<Arc<Shop>>, request: Request, next: Next) -> Response {
    let mut answer = match check(&shop, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => *refused,
    };
    let headers = answer.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

fn check(shop: &Shop, request: &Request) -> Result<(), Box<Response>> {
    let refuse =
        |status: StatusCode, words: &str| Err(Box::new((status, format!("{words}\n")).into_response()));
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allowed = [(header::ALLOW, "GET, HEAD")];
        return Err(Box::new(
            (StatusCode::METHOD_NOT_ALLOWED, allowed, "this server is read-only\n").into_response(),
        ));
    }
    let headers = request.headers();
    let Some(host) = host(headers).filter(|host| known_host(host, &shop.hosts)) else {
        return refuse(StatusCode::FORBIDDEN, "this host name is not known here; tell it with --host");
    };
    if !same_origin(headers, host) {
        return refuse(StatusCode::FORBIDDEN, "another site may not ask here");
    }
    let Some(token) = &shop.token else { return Ok(()) };
    let told = query_token(request.uri()).or_else(|| bearer(headers)).or_else(|| cookie(headers));
    if !told.is_some_and(|told| token.is(told)) {
        return refuse(
            StatusCode::UNAUTHORIZED,
            "a token is needed: open the address that `lowtide serve` printed",
        );
    }
    match query_token(request.uri()) {
        Some(told) => Err(Box::new(without_token(request.uri(), told))),
        None => Ok(()),
    }
}

/// Sends a visitor with a token in the address on to the address without it, with a cookie instead: addresses are
/// written down in many places.
fn without_token(uri: &Uri, token: &str) -> Response {
    let rest: Vec<&str> = pairs(uri).filter(|pair| !pair.starts_with("token=")).collect();
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    // Two slashes at the start would name another host.
    let path = format!("/{}", uri.path().trim_start_matches(['/', '\\']));
    let cookie = format!("{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict");
    let headers = [(header::LOCATION, format!("{path}{query}")), (header::SET_COOKIE, cookie)];
    (StatusCode::SEE_OTHER, headers).into_response()
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
}

fn query_token(uri: &Uri) -> Option<&str> {
    pairs(uri).find_map(|pair| pair.strip_prefix("token="))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

/// The one host a request names.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::HOST).iter();
    let only = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(only)
}

/// Addresses and localhost are nobody's to point elsewhere; any other name must have been told.
fn known_host(host: &str, told: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || told.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn same_origin(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or("null"));
    let named = origin.is_none_or(|origin| {
        origin
            .strip_prefix("http://")
            .or(origin.strip_prefix("https://"))
            .is_some_and(|named| named.eq_ignore_ascii_case(host))
    });
    let navigates = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    named && (navigates || !matches!(site, Some("cross-site" | "same-site")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_could_be_pointed_elsewhere_are_refused() {
        for good in
            ["localhost", "localhost:8080", "127.0.0.1:7710", "[::1]:7710", "10.1.2.3", "node7:7710", "NODE7"]
        {
            assert!(known_host(good, &["node7".to_owned()]), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost.evil.example:7710",
            "node8",
            "",
            "[evil.example]:1",
            "127.0.0.1.evil.example",
        ] {
            assert!(!known_host(bad, &["node7".to_owned()]), "{bad}");
        }
    }

    #[test]
    fn a_token_in_the_address_leads_to_our_own_address_only() {
        let uri: Uri = "//evil.example/x?a=1&token=t".parse().unwrap_or_default();
        let answer = without_token(&uri, "t");
        let to = answer.headers().get(header::LOCATION).unwrap().to_str().unwrap();
        assert!(to.starts_with('/') && !to.starts_with("//"), "{to}");
    }

    proptest! {
        #[test]
        fn no_header_panics(host in ".{0,40}", origin in ".{0,40}", cookies in ".{0,60}") {
            let mut headers = HeaderMap::new();
            for (name, text) in [(header::ORIGIN, origin), (header::COOKIE, cookies)] {
                if let Ok(value) = HeaderValue::from_str(&text) {
                    headers.insert(name, value);
                }
            }
            let _ = (known_host(&host, &[]), same_origin(&headers, &host), cookie(&headers).is_some());
        }
    }
}
