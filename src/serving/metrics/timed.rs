//! How long an admission review takes, measured however it ends: by an answer, a refusal, or because its time is over.
//! It measures and never decides.

use super::{Metrics, Review, Verdict, Webhook};
use std::time::Instant;

/// A review under way. It is counted as failed unless somebody says otherwise before it is dropped.
pub struct TimedReview {
    metrics: Metrics,
    began: Instant,
    review: Review,
}

impl Metrics {
    /// Begins to measure a review.
    pub fn review(&self, webhook: Webhook) -> TimedReview {
        let review = Review { webhook, verdict: Verdict::Failed };
        TimedReview { metrics: self.clone(), began: Instant::now(), review }
    }
}

impl TimedReview {
    /// What the webhook said.
    pub fn decided(&mut self, allowed: bool) {
        self.review.verdict = if allowed { Verdict::Allowed } else { Verdict::Denied };
    }
}

impl Drop for TimedReview {
    fn drop(&mut self) {
        let histogram = self.metrics.admission_duration.get_or_create(&self.review);
        histogram.observe(self.began.elapsed().as_secs_f64());
    }
}
