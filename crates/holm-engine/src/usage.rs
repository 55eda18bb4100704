//! What an account has used, and what that costs.

use holm_store::{KeyScope, PAGE_MAX, PageQuery, Record, Totals};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::{Engine, Error, SandboxState, UsageReport, UsageRow};

/// Rows of a usage report.
const RECENT: u32 = 50;
/// How often to look for a moment in which nothing ends or is charged.
const LOOKS: u32 = 8;

/// One moment, on both clocks.
struct Moment {
    instant: Instant,
    wall: Timestamp,
}

impl Engine {
    /// What the caller's account has used and has left.
    ///
    /// # Errors
    /// `forbidden`; `unavailable` or `internal` when the store fails.
    pub async fn usage(&self) -> Result<UsageReport, Error> {
        self.caller.needs(KeyScope::Read)?;
        self.start().await?;
        let (store, owner) = (&self.inner.store, self.caller.owner());
        let (totals, alive) = self.sums().await?;
        let moment = Moment { instant: Instant::now(), wall: Timestamp::now() };
        let balance = store.ledger_balance(self.caller.account).await?;
        let recent = store.sandbox_list(owner, PageQuery::first(RECENT), true).await?;

        let mut report = UsageReport {
            sandboxes_running: alive.len(),
            sandboxes_total: totals.sandboxes,
            seconds_total: totals.ended_seconds,
            cost_total: totals.cost,
            charges: !self.inner.settings.are_free() || balance != 0,
            balance,
            burn_per_hour: 0,
            currency: self.inner.settings.currency.clone(),
            traffic: totals.traffic,
            recent: recent.items.into_iter().map(|record| self.row(record, &moment)).collect(),
        };
        for record in alive {
            if record.ready_at.is_some() && record.ended.is_none() {
                let price = match record.state {
                    SandboxState::Paused => record.pause.price_per_second,
                    _ => record.price_per_second,
                };
                let burn = price.saturating_mul(3600);
                report.burn_per_hour = report.burn_per_hour.saturating_add(burn);
            }
            let (charged, written) = (record.cost(), record.traffic);
            let row = self.row(record, &moment);
            report.traffic = report.traffic.plus(row.traffic.beyond(written));
            report.seconds_total += row.seconds;
            // What has not been charged yet counts, too.
            let more = row.cost.saturating_sub(charged);
            report.cost_total = report.cost_total.saturating_add(more);
        }
        Ok(report)
    }

    /// The sums of what has ended, and what has not, of one moment: what ends or is charged between
    /// two looks would be in both or in neither.
    async fn sums(&self) -> Result<(Totals, Vec<Record>), Error> {
        let look = || self.inner.store.sandbox_totals(self.caller.owner());
        let mut before = look().await?;
        for _ in 1..LOOKS {
            let alive = self.all_alive().await?;
            let after = look().await?;
            if after == before {
                return Ok((after, alive));
            }
            before = after;
        }
        Ok((before, self.all_alive().await?))
    }

    async fn all_alive(&self) -> Result<Vec<Record>, Error> {
        let mut alive = Vec::new();
        let mut query = PageQuery::first(PAGE_MAX);
        loop {
            let page = self.inner.store.sandbox_list(self.caller.owner(), query, false).await?;
            alive.extend(page.items);
            match page.next {
                Some(next) => query = PageQuery { limit: PAGE_MAX, after: Some(next) },
                None => return Ok(alive),
            }
        }
    }

    fn row(&self, record: Record, moment: &Moment) -> UsageRow {
        let (now, traffic) = match self.own(&record.id) {
            Some(sandbox) => (sandbox.at(moment.instant), sandbox.link.traffic()),
            None => (moment.wall, record.traffic),
        };
        UsageRow {
            id: record.id,
            seconds: record.seconds(now),
            cost: record.cost_at(now),
            name: record.name,
            size: record.size,
            state: record.state,
            created_at: record.created_at,
            ended: record.ended,
            traffic,
        }
    }
}
