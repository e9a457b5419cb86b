//! Reads what the API server answers within bounds: bytes before they are kept, values before they are built.
//! It never decides what an answer means.
//!
//! What it comes to. Eight reconciles of all kinds run at once (`controller/runtime/workers.rs`), and each waits for one answer at a
//! time. A small answer takes up to 256 KiB of text, and up to 512 KiB while its buffer grows. A large one takes 8 MiB at the most,
//! 16 MiB while its buffer grows, and one of them is read at a time: 8 x 0.5 + 16 = 20 MiB at the very worst, which needs an
//! object of 1.5 MiB in letters that JSON writes with six bytes each. A Secret or ConfigMap of 1 MiB takes 1.4 MiB (2 MiB
//! while it grows).
//!
//! What is built of an answer lives as long as its reader looks at it, one object for each of the eight: its own bytes,
//! 1.5 MiB at most, and about 100 bytes for each value: 5,000 of a Secret or ConfigMap make 0.5 MB, 40,000 of anything else
//! 4 MB. Without the bound, a ConfigMap of 1 MiB with keys of four letters would make 15 MB. Of an object of ours the spec is
//! built, which admission bounds, and a few hundred values around it.

use super::objects::CallError;
use super::own;
use futures::{AsyncBufRead, AsyncReadExt};
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::pin::pin;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes of an answer that is read without waiting.
const SMALL: u64 = 256 * 1024;
/// Bytes of an answer about one object. The API server stores 1.5 MiB at most, and JSON may take six times that.
pub(super) const LARGEST: u64 = 8 * 1024 * 1024;
/// Bytes of a page of a list.
pub(super) const LARGEST_PAGE: u64 = 4 * 1024 * 1024;

/// Large answers that are read at a time.
static LARGE: Semaphore = Semaphore::const_new(1);

/// The text of an answer.
pub(super) struct Answer {
    text: Vec<u8>,
    /// Held until the text is gone.
    _turn: Option<SemaphorePermit<'static>>,
}

impl Answer {
    /// Asks and reads, unless the answer is larger than this: then there is none.
    pub(super) async fn of(
        client: &Client,
        request: http::Request<Vec<u8>>,
        most: u64,
    ) -> kube::Result<Option<Self>> {
        Self::read(client.request_stream(request).await?, most).await.map_err(kube::Error::ReadEvents)
    }

    async fn read(body: impl AsyncBufRead, most: u64) -> std::io::Result<Option<Self>> {
        let (mut body, mut text, mut turn) = (pin!(body), Vec::new(), None);
        (&mut body).take(SMALL.min(most)).read_to_end(&mut text).await?;
        if text.len() as u64 == SMALL {
            // Nobody closes it.
            turn = LARGE.acquire().await.ok();
            (&mut body).take(most.saturating_sub(SMALL)).read_to_end(&mut text).await?;
        }
        let more = body.read(&mut [0]).await? > 0;
        Ok((!more).then_some(Self { text, _turn: turn }))
    }

    /// What it says.
    pub(super) fn parsed<T: DeserializeOwned>(&self) -> kube::Result<T> {
        serde_json::from_slice(&self.text).map_err(kube::Error::SerdeError)
    }

    /// The object of one of our kinds that it consists of.
    pub(super) fn own_object(&self, operation: impl Fn() -> String) -> Result<Value, CallError> {
        own::object(&self.text).map_err(|unread| match unread {
            own::Unread::TooMany(limit) => CallError::TooLarge { operation: operation(), limit },
            own::Unread::Parse(error) => {
                let source = Box::new(kube::Error::SerdeError(error));
                CallError::Failed { operation: operation(), source }
            }
        })
    }

    /// The object it consists of, unless it has more values than this.
    pub(super) fn object(&self, most: usize, operation: impl Fn() -> String) -> Result<Value, CallError> {
        if has_more_values(&self.text, most) {
            return Err(CallError::TooLarge { operation: operation(), limit: format!("{most} values") });
        }
        let parsed = self.parsed();
        parsed.map_err(|source| CallError::Failed { operation: operation(), source: Box::new(source) })
    }
}

/// Whether a JSON text may have more values than this. A value follows a bracket or a comma outside of texts.
fn has_more_values(text: &[u8], most: usize) -> bool {
    let (mut left, mut quoted, mut escaped) = (most, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' | b'[' | b',' if !quoted => {
                if left == 0 {
                    return true;
                }
                left -= 1;
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::io::Cursor;
    use serde_json::json;

    async fn read(length: u64, most: u64) -> Option<usize> {
        let body = Cursor::new(vec![b'x'; length as usize]);
        Answer::read(body, most).await.unwrap().map(|answer| answer.text.len())
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_its_limit_and_not_beyond() {
        for length in [0, 1, SMALL - 1, SMALL, SMALL + 1, 2 * SMALL] {
            assert_eq!(read(length, 2 * SMALL).await, Some(length as usize), "{length}");
        }
        assert_eq!(read(2 * SMALL + 1, 2 * SMALL).await, None);
        assert_eq!((read(10, 10).await, read(11, 10).await), (Some(10), None));
        assert_eq!(LARGE.available_permits(), 1, "whoever has read makes room");
    }

    #[test]
    fn values_are_counted_before_they_are_built() {
        let text = |value: Value| value.to_string().into_bytes();
        let four = text(json!({"a": ["{[,", "\\\",,,"], "b": 1}));
        assert!(!has_more_values(&four, 4) && has_more_values(&four, 3));
        let many = text(json!(vec![0; 1000]));
        assert!(!has_more_values(&many, 1000) && has_more_values(&many, 999));
    }
}
