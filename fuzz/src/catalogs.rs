//! Catalogue files: read or refused, never half of each, and the same in TOML and JSON.

use reqwest_safe_retry::{EndpointCatalog, errors::CatalogError};

/// Input: a file, tried as TOML and as JSON.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let toml = EndpointCatalog::from_toml(text);
    whole_or_refused(text, &toml);
    whole_or_refused(text, &EndpointCatalog::from_json(text));
    if let Some(json) = as_json(text) {
        let json_too = EndpointCatalog::from_json(&json);
        match (&toml, &json_too) {
            (Ok(toml), Ok(json)) => assert_eq!(format!("{toml:?}"), format!("{json:?}"), "{text}"),
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => panic!("only TOML may say so, JSON: {error:?}\n{text}\n{json}"),
            (Err(error), Ok(_)) => panic!("only JSON may say so, TOML: {error:?}\n{text}\n{json}"),
        }
    }
}

fn whole_or_refused(text: &str, catalog: &Result<EndpointCatalog, CatalogError>) {
    match catalog {
        Ok(catalog) => {
            let _table = format!("{catalog:?}{}", catalog.audit());
        }
        Err(CatalogError::File(invalid)) => {
            assert!((1..=text.lines().count() + 1).contains(&invalid.line()), "{invalid}\n{text}");
            assert!(!invalid.to_string().contains('\n'), "an error of two lines: {invalid}");
        }
        Err(other) => panic!("an error without its place: {other:?}"),
    }
}

/// The same content as JSON, as far as JSON can say it.
fn as_json(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(text).ok()?;
    serde_json::to_string(&table).ok()
}
