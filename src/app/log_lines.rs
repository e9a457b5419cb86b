//! How a log line is written as JSON: time, level, what is said, and what each span around it is about, under its name.
//! It writes what it is given; what is logged at all is decided by the filter.

use serde::ser::{Error, SerializeMap, Serializer};
use serde_json::value::RawValue;
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// One JSON object a line. The library's own writer gives the name of a span the key `name`, which hides that of the
/// object.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Vec::with_capacity(256);
        let mut serializer = serde_json::Serializer::new(&mut line);
        let map = serializer.serialize_map(None).map_err(|_| fmt::Error)?;
        write_line(map, context, event).map_err(|_| fmt::Error)?;
        writer.write_str(str::from_utf8(&line).map_err(|_| fmt::Error)?)?;
        writer.write_char('\n')
    }
}

fn write_line<M, S, N>(mut map: M, context: &FmtContext<'_, S, N>, event: &Event<'_>) -> Result<(), M::Error>
where
    M: SerializeMap<Ok = ()>,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut time = String::new();
    SystemTime.format_time(&mut Writer::new(&mut time)).map_err(M::Error::custom)?;
    map.serialize_entry("timestamp", &time)?;
    map.serialize_entry("level", event.metadata().level().as_str())?;
    let mut fields = Fields { map: &mut map, failed: None };
    event.record(&mut fields);
    if let Some(error) = fields.failed {
        return Err(error);
    }
    map.serialize_entry("target", event.metadata().target())?;
    for span in context.event_scope().into_iter().flatten() {
        let extensions = span.extensions();
        let about = extensions.get::<FormattedFields<N>>().map(|fields| fields.fields.as_str());
        // Written as JSON by the formatter of fields that `logging` chooses.
        let about = about.and_then(|about| serde_json::from_str::<&RawValue>(about).ok());
        if let Some(about) = about {
            map.serialize_entry(span.name(), about)?;
        }
    }
    map.end()
}

/// Writes the fields of a line; the first failure ends it.
struct Fields<'a, M: SerializeMap> {
    map: &'a mut M,
    failed: Option<M::Error>,
}

impl<M: SerializeMap> Fields<'_, M> {
    fn write(&mut self, field: &Field, value: &(impl serde::Serialize + ?Sized)) {
        if self.failed.is_none() {
            self.failed = self.map.serialize_entry(field.name().trim_start_matches("r#"), value).err();
        }
    }
}

impl<M: SerializeMap> Visit for Fields<'_, M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::format::JsonFields;
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_of_a_span_says_what_it_is_about_beside_what_it_says_itself() {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(JsonLines)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::error_span!(
                "reconcile",
                kind = "Thing",
                name = "one\n",
                generation = tracing::field::Empty
            );
            let _entered = span.enter();
            tracing::info!(kind = "Service", name = "child", count = 3, "applying");
            span.record("generation", 7);
            tracing::warn!(error = %"a \"quote\"", whole = ?Some(1), "failed");
        });
        let bytes = lines.0.lock().unwrap().clone();
        let said: Vec<Value> = String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let target = "coder_k8s::app::log_lines::tests";
        let mut expected = [
            json!({ "level": "INFO", "message": "applying", "kind": "Service", "name": "child", "count": 3,
                "target": target, "reconcile": { "kind": "Thing", "name": "one\n" } }),
            json!({ "level": "WARN", "message": "failed", "error": "a \"quote\"", "whole": "Some(1)",
                "target": target, "reconcile": { "kind": "Thing", "name": "one\n", "generation": 7 } }),
        ];
        for (line, said) in expected.iter_mut().zip(&said) {
            line["timestamp"] = said["timestamp"].clone();
            assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{said}");
        }
        assert_eq!(said, expected);
    }
}
