// SPDX-License-Identifier: Apache-2.0

#include "loadtest/engine/sender.h"

#include <sys/prctl.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace qgemm::loadtest {
namespace {

// Least pause of a closed loop after an error, so that a server that refuses at
// once is not called in a tight loop.
constexpr absl::Duration kPauseAfterError = absl::Milliseconds(5);

// Linux wakes a sleeper up to 50 us late to save power unless told not to.
void WakeUpOnTime() { prctl(PR_SET_TIMERSLACK, 1); }

constexpr Histogram ServerHistograms::*kServerHistograms[] = {
    &ServerHistograms::queue_ns,    &ServerHistograms::host_to_device_ns,
    &ServerHistograms::kernel_ns,   &ServerHistograms::device_to_host_ns,
    &ServerHistograms::device_ns,   &ServerHistograms::total_ns,
    &ServerHistograms::launch_rows, &ServerHistograms::launch_requests};

void CountTimings(const Timings& timings, ServerHistograms* server) {
  const auto count = [](absl::Duration time, Histogram* times_ns) {
    times_ns->Record(absl::ToInt64Nanoseconds(time));
  };
  count(timings.queue, &server->queue_ns);
  count(timings.host_to_device, &server->host_to_device_ns);
  count(timings.kernel, &server->kernel_ns);
  count(timings.device_to_host, &server->device_to_host_ns);
  count(timings.host_to_device + timings.kernel + timings.device_to_host,
        &server->device_ns);
  count(timings.total, &server->total_ns);
  server->launch_rows.Record(timings.launch_rows);
  server->launch_requests.Record(timings.launch_requests);
}

}  // namespace

RunResult EmptyResult(const GeneratorOptions& options) {
  RunResult result;
  for (size_t i = 0; i < options.class_names.size(); ++i) {
    ClassResult each;
    each.name = options.class_names[i];
    each.m = options.class_rows[i];
    each.latency_ns = each.send_latency_ns = Histogram(kUsualMaxNs);
    result.classes.push_back(std::move(each));
  }
  result.lag_ns = Histogram(kUsualMaxNs);
  for (const auto histogram : kServerHistograms) {
    result.server.*histogram = Histogram(kUsualMaxNs);
  }
  return result;
}

void MergeCounts(const RunResult& sender, RunResult* all) {
  all->measured = std::max(all->measured, sender.measured);
  for (const auto count :
       {&RunResult::due, &RunResult::sent, &RunResult::answers,
        &RunResult::rows, &RunResult::bytes_sent, &RunResult::bytes_received,
        &RunResult::warmup_answers, &RunResult::expired, &RunResult::cancelled,
        &RunResult::disconnected}) {
    all->*count += sender.*count;
  }
  MergeErrors(sender.errors, &all->errors);
  for (size_t i = 0; i < all->classes.size(); ++i) {
    all->classes[i].latency_ns.Merge(sender.classes[i].latency_ns);
    all->classes[i].send_latency_ns.Merge(sender.classes[i].send_latency_ns);
  }
  all->lag_ns.Merge(sender.lag_ns);
  for (const auto histogram : kServerHistograms) {
    (all->server.*histogram).Merge(sender.server.*histogram);
  }
}

absl::StatusOr<std::unique_ptr<Sender>> Sender::Create(
    const GeneratorOptions& options, int number, const GeneratorParts& parts) {
  std::unique_ptr<Sender> sender(new Sender(options, number, parts));
  ASSIGN_OR_RETURN(
      sender->transport_,
      parts.open(static_cast<int>(sender->sent_.size()), sender.get()));
  return sender;
}

Sender::Sender(const GeneratorOptions& options, int sender,
               const GeneratorParts& parts)
    : options_(options),
      number_(sender),
      parts_(parts),
      result_(EmptyResult(options)),
      cancelled_(DueRequests::SlotsOf(options, sender)),
      sent_(DueRequests::SlotsOf(options, sender)),
      interval_(std::make_unique<IntervalCounts>()) {}

Sender::~Sender() {
  if (thread_.joinable()) {
    Stop();
    thread_.join();
  }
  transport_.reset();  // its thread may still be on its way out of OnEnd
}

void Sender::Start(absl::Time start) {
  counted_from_ = start + options_.warmup;
  end_ = counted_from_ + options_.duration;
  {
    MutexLock lock(&mutex_);
    due_.emplace(options_, SenderShare{number_, options_.senders, start, end_});
  }
  thread_ = std::thread([this] { Run(); });
}

void Sender::Stop() {
  MutexLock lock(&mutex_);
  due_->EndAt(SteadyClock().Now());
  changed_.SignalAll();
}

void Sender::Join() { thread_.join(); }

void Sender::Run() {
  WakeUpOnTime();
  while (const std::optional<DueAction> action = AwaitAction()) Do(*action);
  done_.store(true, std::memory_order_release);
}

std::optional<DueAction> Sender::AwaitAction() {
  MutexLock lock(&mutex_);
  while (true) {
    const absl::Time now = SteadyClock().Now();
    const std::optional<DueAction> action = due_->Take(now);
    in_flight_.store(due_->in_flight(), std::memory_order_relaxed);
    if (action.has_value()) return action;
    if (due_->exhausted(now) && !counting_) return std::nullopt;
    wait_until_ = due_->NextTime();
    if (now < end_) wait_until_ = std::min(wait_until_, end_);
    changed_.WaitFor(&mutex_, wait_until_ - now);
    wait_until_ = absl::InfinitePast();
  }
}

void Sender::Do(const DueAction& action) {
  switch (action.kind) {
    case DueAction::Kind::kSend:
      return Send(action.request);
    case DueAction::Kind::kCancel: {
      // Under the lock, so that the slot cannot have its next request before.
      MutexLock lock(&mutex_);
      cancelled_[action.request.slot] = true;
      transport_->Cancel(action.request.slot);
      return;
    }
    case DueAction::Kind::kDisconnect: {
      const absl::Status status = transport_->Disconnect();
      MutexLock lock(&mutex_);
      disconnect_failure_.Update(status);
      return;
    }
  }
}

void Sender::GiveUpOverdue() {
  MutexLock lock(&mutex_);
  overdue_.clear();
  due_->TakeOverdue(SteadyClock().Now() - options_.timeout, &overdue_);
  for (int slot : overdue_) transport_->Cancel(slot);
}

void Sender::Send(const DueRequest& request) {
  Sent& sent = sent_[request.slot];
  sent.request = request;
  sent.picked = parts_.pick(request.client, request.sequence);
  sent.time = SteadyClock().Now();
  if (!request.is_open()) sent.request.due = sent.time;
  transport_->Start(request.slot, sent.picked.message, options_.deadline);
}

void Sender::OnEnd(int slot, const EndedRequest& end) {
  const absl::Time now = SteadyClock().Now();
  const Ended ended = Release(slot, end.status, now);
  // First the next request, so that counting costs it nothing.
  if (ended.next.has_value()) Do(*ended.next);
  Count(ended, end, now);
  if (end.status.ok() && parts_.observe != nullptr) {
    parts_.observe(ended.sent.picked.message, answers_seen_++, end);
  }
  MutexLock lock(&mutex_);
  counting_ = false;
  if (due_->in_flight() == 0) changed_.Signal();
}

Sender::Ended Sender::Release(int slot, const absl::Status& status,
                              absl::Time now) {
  Ended ended;
  ended.sent = sent_[slot];
  MutexLock lock(&mutex_);
  counting_ = true;
  ended.cancelled = cancelled_[slot];
  cancelled_[slot] = false;
  const bool pause = !status.ok() && !ended.cancelled;
  ended.given_up = due_->Ended(
      slot, now,
      pause ? std::max(options_.think, kPauseAfterError) : options_.think);
  ended.next = due_->Take(now);
  in_flight_.store(due_->in_flight(), std::memory_order_relaxed);
  if (due_->NextTime() < wait_until_) changed_.Signal();
  return ended;
}

void Sender::Count(const Ended& ended, const EndedRequest& end,
                   absl::Time now) {
  const Sent& sent = ended.sent;
  const bool counted = sent.request.due >= counted_from_;
  if (counted) {
    // Beside open arrivals, closed loops have no rate to be held to.
    if (sent.request.is_open() || !options_.arrivals.has_value()) {
      ++result_.sent;
    }
    last_end_ = now;
  }
  int64_t lag_ns = 0;
  if (sent.request.is_open()) {
    lag_ns = absl::ToInt64Nanoseconds(sent.time - sent.request.ready);
    if (counted) result_.lag_ns.Record(lag_ns);
  }
  bool error = false;
  if (!end.status.ok()) {
    error = CountFailure(ended, end, now);
  } else if (counted) {
    CountAnswer(sent, end, now);
  } else {
    ++result_.warmup_answers;
  }
  MutexLock lock(&interval_mutex_);
  interval_->max_lag_ns = std::max(interval_->max_lag_ns, lag_ns);
  interval_->errors += error ? 1 : 0;
  if (!end.status.ok()) return;
  const int64_t latency_ns = absl::ToInt64Nanoseconds(now - sent.request.due);
  interval_->latency_ns.Record(latency_ns);
  if (counted) interval_->counted_ns.Record(latency_ns);
  interval_->rows += sent.picked.rows;
  interval_->launch_rows += static_cast<double>(end.timings.launch_rows);
}

void Sender::CountAnswer(const Sent& sent, const EndedRequest& end,
                         absl::Time now) {
  ++result_.answers;
  result_.rows += sent.picked.rows;
  result_.bytes_sent += sent.picked.bytes_sent;
  for (absl::string_view piece : end.c) result_.bytes_received += piece.size();
  ClassResult& row_class = result_.classes[sent.picked.row_class];
  row_class.latency_ns.Record(absl::ToInt64Nanoseconds(now - sent.request.due));
  row_class.send_latency_ns.Record(absl::ToInt64Nanoseconds(now - sent.time));
  CountTimings(end.timings, &result_.server);
}

bool Sender::CountFailure(const Ended& ended, const EndedRequest& end,
                          absl::Time now) {
  const absl::StatusCode code = end.status.code();
  int64_t* tally = nullptr;
  if (end.cut) {
    tally = &result_.disconnected;
  } else if (ended.cancelled && code == absl::StatusCode::kCancelled) {
    tally = &result_.cancelled;
  } else if (options_.deadline < absl::InfiniteDuration() &&
             code == absl::StatusCode::kDeadlineExceeded) {
    tally = &result_.expired;
  } else {
    const bool given_up =
        ended.given_up && code == absl::StatusCode::kCancelled;
    if (given_up) {
      CountError(absl::DeadlineExceededError(
                     absl::StrCat("no answer within --timeout=",
                                  absl::FormatDuration(options_.timeout))),
                 std::nullopt, &result_.errors);
    } else {
      CountError(end.status, now - ended.sent.time, &result_.errors);
    }
    return true;
  }
  if (ended.sent.request.due >= counted_from_) ++*tally;
  return false;
}

void Sender::TakeInterval(std::unique_ptr<IntervalCounts>* counts) {
  MutexLock lock(&interval_mutex_);
  interval_.swap(*counts);
}

RunResult Sender::TakeResult() {
  MutexLock lock(&mutex_);
  result_.measured = std::max(absl::ZeroDuration(), last_end_ - counted_from_);
  result_.due = result_.sent + due_->CountUnsent(counted_from_);
  if (!disconnect_failure_.ok()) {
    CountError(disconnect_failure_, std::nullopt, &result_.errors);
  }
  return std::move(result_);
}

}  // namespace qgemm::loadtest
