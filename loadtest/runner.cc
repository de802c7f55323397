// SPDX-License-Identifier: Apache-2.0

#include "loadtest/runner.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "loadtest/search.h"
#include "loadtest/server_layers.h"
#include "loadtest/verify/verify.h"
#include "loadtest/walk_programs.h"

namespace qgemm::loadtest {
namespace {

// Bound on kept answers together.
constexpr int64_t kKeptBytes = int64_t{256} << 20;
// Layers that --verify=sample compares with fp64, and multiply-adds of all of
// them: under a second of the oracle on one core.
constexpr size_t kSampledLayers = 8;
constexpr double kSampledMultiplyAdds = 1 << 28;
constexpr double kFirstSearchedRate = 1000;
// Short, since the server was there a moment ago.
constexpr absl::Duration kReconnectTimeout = absl::Seconds(2);
constexpr absl::Duration kInfoTimeout = absl::Seconds(5);
constexpr int kConfirmingRunIsLonger = 2;  // times

WeightsSummary Summarize(const LoadtestOptions& options,
                         const LoadTargets& targets) {
  WeightsSummary summary;
  std::set<std::string> formats;
  for (const LoadedLayer& layer : targets.layers) {
    formats.insert(layer.format);
    summary.resident_bytes += layer.resident_bytes;
    summary.largest_k = std::max(summary.largest_k, layer.k);
    summary.largest_n = std::max(summary.largest_n, layer.n);
  }
  summary.layers = static_cast<int64_t>(targets.layers.size());
  summary.programs = static_cast<int64_t>(targets.programs.size());
  summary.formats.assign(formats.begin(), formats.end());
  summary.text =
      absl::StrCat(absl::StrJoin(formats, ", "), " ", options.layers.text());
  if (summary.layers > 1) {
    absl::StrAppend(&summary.text, ", ", summary.layers, " layers");
  }
  if (summary.programs > 0) {
    absl::StrAppend(&summary.text, ", ", summary.programs, " programs");
  }
  return summary;
}

// Without a server: the shapes as they would be.
LoadTargets ImaginedTargets(const LoadtestOptions& options) {
  LoadTargets targets;
  std::vector<std::string> names;
  for (const LayerShape& shape : options.layers.shapes) {
    targets.layers.push_back({shape.name, "none", shape.k, shape.n, 0});
    names.push_back(shape.name);
  }
  if (!options.layers.has_programs()) return targets;
  for (const WalkProgram& each : ProgramsOfWalk(options.layers.model, names)) {
    targets.programs.push_back(
        {each.first_weights, each.input_row_elements, each.output_row_bytes});
  }
  return targets;
}

// OK if the server can do what the run asks of it, before anything is uploaded.
absl::Status CheckServer(const LoadtestOptions& options,
                         const ServerInfo& server) {
  if (!options.layers.has_programs() || server.program_revision > 0) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("--program_walk: the server's backend, ", server.backend,
                   ", runs no programs"));
}

MatmulSignature SignatureOf(const RequestOptions& request) {
  MatmulSignature signature;
  signature.a_type = request.a_type;
  signature.c_type = request.result_type();
  signature.mode = request.mode;
  return signature;
}

class LoadTest {
 public:
  LoadTest(const LoadtestOptions& options, const std::atomic<bool>& stop,
           LiveLine* live, LoadtestReport* report)
      : options_(options), stop_(stop), live_(live), report_(report) {}

  // All steps up to the judgement. Errors: those that kept it from running.
  absl::Status Run() {
    if (options_.transport == TransportKind::kNull) {
      return RunAll(ImaginedTargets(options_));
    }
    RETURN_IF_ERROR(Connect(options_.connect_timeout));
    RETURN_IF_ERROR(CheckServer(options_, report_->environment.server));
    setup_.emplace(options_);
    absl::Status status =
        setup_->Prepare(client_.get(), stop_, [this](int done, int all) {
          live_->Say(absl::StrFormat("%d of %d layers in place", done, all));
        });
    if (status.ok()) status = RunAll(setup_->targets());
    TearDown();
    return status;
  }

 private:
  absl::Status Connect(absl::Duration timeout) {
    ClientOptions client;
    options_.connection.ApplyTo(&client);
    client.max_message_bytes = kMaxMessageBytes;
    client.connect_timeout = timeout;
    client.retry.max_attempts = 1;  // a refusal is shown, not hidden
    ASSIGN_OR_RETURN(client_,
                     Client::Connect(options_.connection.server, client));
    ASSIGN_OR_RETURN(report_->environment.server, client_->GetServerInfo());
    return absl::OkStatus();
  }

  // Runs `measure` without the control connection, unless --churn needs it: its
  // thread may be the one that gRPC lets wait for the events of the whole
  // process, and hands those of the measured connections on.
  template <typename Measure>
  auto Undisturbed(Measure measure) {
    const bool leaves = client_ != nullptr && !options_.churn.shape.has_value();
    if (leaves) client_.reset();
    auto result = measure();
    // The next use of it tells if that failed.
    if (leaves) Connect(kReconnectTimeout).IgnoreError();
    return result;
  }

  // Zero if there is no server, or it does not tell.
  absl::Duration ServerCpu() {
    if (client_ == nullptr) return absl::ZeroDuration();
    const absl::StatusOr<ServerInfo> server =
        client_->GetServerInfo(absl::Now() + kInfoTimeout);
    return server.ok() ? server->process_cpu : absl::ZeroDuration();
  }

  absl::Status RunAll(const LoadTargets& targets) {
    report_->weights = Summarize(options_, targets);
    if (options_.layers.is_walk()) {
      report_->calls_of_token = report_->weights.programs > 0
                                    ? report_->weights.programs
                                    : report_->weights.layers;
    }
    targets_ = targets;
    if (!options_.baseline) return RunLoad();
    ASSIGN_OR_RETURN(const auto set, LoadSet::Make(options_, targets_));
    live_->Say("baseline");
    ASSIGN_OR_RETURN(report_->baseline, Undisturbed([&] {
                       return MeasureBaseline(options_,
                                              PartsFor(*set, nullptr));
                     }));
    RETURN_IF_ERROR(CountEchoes(*set));
    RETURN_IF_ERROR(RunLoad());
    return stop_ ? absl::OkStatus() : CountEchoes(*set);
  }

  absl::Status RunLoad() {
    if (options_.find_peak) return FindPeak();
    if (!options_.sweep.values.empty()) return RunSweep();
    return RunPoint(options_, "").status();
  }

  // Rate of echoes of several closed loops: the mean of before the load and
  // after it, since the machine's pace drifts.
  absl::Status CountEchoes(const LoadSet& set) {
    const ArrivalOptions& arrivals = options_.arrivals;
    if (arrivals.is_open() || arrivals.concurrency < 2) {
      return absl::OkStatus();
    }
    live_->Say("baseline");
    ASSIGN_OR_RETURN(const double rate, Undisturbed([&] {
                       return MeasureEchoRate(options_, PartsFor(set, nullptr));
                     }));
    std::optional<EchoRate>& sum = report_->baseline->echo_rate;
    sum = EchoRate{arrivals.concurrency,
                   sum.has_value() ? (sum->per_second + rate) / 2 : rate};
    return absl::OkStatus();
  }

  RunParts PartsFor(const LoadSet& set, ObserveAnswer observe) {
    return {client_.get(), &set, std::move(observe), &stop_,
            [this](const SeriesPoint& point) { live_->Show(point); }};
  }

  // One run, appended to the report; true if it holds.
  absl::StatusOr<bool> RunPoint(const LoadtestOptions& options,
                                const std::string& label) {
    if (options.arrivals.duration <= absl::ZeroDuration()) return true;
    ASSIGN_OR_RETURN(const auto set, LoadSet::Make(options, targets_));
    AnswerChecker checker(options.verify, set->size(),
                          set->programs().empty() ? kKeptBytes : 0);
    const auto observe = [&checker](int message, int64_t sequence,
                                    const EndedRequest& answer) {
      if (answer.fetch == nullptr || !checker.Wants(sequence)) {
        return checker.OnAnswer(message, sequence, answer.c);
      }
      const std::string c = (*answer.fetch)(answer.c.front());
      const absl::string_view piece = c;
      checker.OnAnswer(message, sequence, absl::MakeConstSpan(&piece, 1));
    };
    if (options.verify != VerifyMode::kNone && !set->programs().empty()) {
      live_->Say("asking each request alone");
      RETURN_IF_ERROR(AskAlone(options, PartsFor(*set, observe)));
    }
    live_->Begin(label);
    const absl::Duration cpu_before = ServerCpu();
    ASSIGN_OR_RETURN(RunResult run, Undisturbed([&] {
                       return RunOnce(options, PartsFor(*set, observe));
                     }));
    run.server_cpu = std::max(absl::ZeroDuration(), ServerCpu() - cpu_before);
    run.label = label;
    const bool holds = Holds(run, options);
    report_->runs.push_back(std::move(run));
    report_->headline = report_->runs.size() - 1;
    if (options.verify != VerifyMode::kNone) Verify(*set, checker);
    return holds;
  }

  // The headline of a sweep of rates is the highest that held.
  absl::Status RunSweep() {
    std::optional<size_t> best;
    for (size_t i = 0; i < options_.sweep.values.size() && !stop_; ++i) {
      ASSIGN_OR_RETURN(const LoadtestOptions options, SweepPoint(options_, i));
      ASSIGN_OR_RETURN(const bool held,
                       RunPoint(options, options_.sweep.Label(i)));
      const std::vector<RunResult>& runs = report_->runs;
      if (!held || runs.empty() || !runs.back().is_open()) continue;
      if (!best || runs.back().asked_rate >= runs[*best].asked_rate) {
        best = runs.size() - 1;
      }
    }
    if (best.has_value()) report_->headline = *best;
    return absl::OkStatus();
  }

  absl::Status FindPeak() {
    PeakSearchOptions search_options;
    search_options.first_rate =
        options_.arrivals.rate.has_value()
            ? options_.arrivals.rate->RateAt(absl::ZeroDuration())
            : kFirstSearchedRate;
    PeakSearch search(search_options);
    PeakResult& peak = report_->peak.emplace();
    for (const LatencyBound& bound : options_.slo) {
      absl::StrAppend(&peak.slo, peak.slo.empty() ? "" : ",", bound.name, "=",
                      absl::FormatDuration(bound.limit));
    }
    size_t best = 0;
    while (const std::optional<PeakSearch::Step> step = search.Next()) {
      if (stop_) break;
      LoadtestOptions options =
          AtRate(options_, RateProfile::Constant(step->rate));
      if (step->confirming) options.arrivals.duration *= kConfirmingRunIsLonger;
      ASSIGN_OR_RETURN(
          const bool held,
          RunPoint(options, absl::StrFormat("%srate=%.6g",
                                            step->confirming ? "confirm " : "",
                                            step->rate)));
      if (stop_) break;
      search.Tell(held);
      if (held) best = report_->runs.size() - 1;
    }
    peak.rate = search.peak();
    peak.confirmed = search.confirmed();
    report_->headline = best;
    return absl::OkStatus();
  }

  void Verify(const LoadSet& set, const AnswerChecker& checker) {
    VerifyReport found = checker.Report();
    if (setup_.has_value() && options_.layers.is_synthetic() &&
        set.programs().empty()) {
      live_->Say("comparing answers with fp64");
      CompareWithFp64(set, checker, &found);
    }
    VerifyReport& all = report_->verify;
    all.mode = found.mode;
    all.answers_compared += found.answers_compared;
    all.answers_different += found.answers_different;
    all.elements_checked += found.elements_checked;
    all.worst_tolerance_used =
        std::max(all.worst_tolerance_used, found.worst_tolerance_used);
    all.status.Update(found.status);
  }

  void CompareWithFp64(const LoadSet& set, const AnswerChecker& checker,
                       VerifyReport* found) {
    std::map<int, std::vector<AnsweredRequest>> by_layer;
    for (int i = 0; i < set.size(); ++i) {
      std::shared_ptr<const std::string> c = checker.Kept(i);
      if (c == nullptr) continue;
      const RequestPick message = set.Describe(i);
      const int64_t m = set.RowsOf(message);
      by_layer[message.layer].push_back(
          {absl::StrCat("input ", message.input, " of m=", m, " at ",
                        set.layers()[message.layer].name),
           m, set.OperandOf(message), std::move(c)});
    }
    const bool all = options_.verify == VerifyMode::kAll;
    const size_t step =
        all ? 1 : (by_layer.size() + kSampledLayers - 1) / kSampledLayers;
    Fp64Budget budget;
    budget.seed = options_.seed;
    if (!all) budget.multiply_adds = kSampledMultiplyAdds / kSampledLayers;
    size_t position = 0;
    for (const auto& [layer, answers] : by_layer) {
      if (position++ % step != 0) continue;
      const absl::StatusOr<CanonicalWeights> canonical =
          setup_->Canonical(layer);
      found->status.Update(canonical.status());
      if (!canonical.ok()) return;
      CheckAgainstFp64(*canonical, SignatureOf(options_.request), answers,
                       budget, found);
    }
  }

  void TearDown() {
    live_->Say("removing layers");
    const absl::Status removed = setup_->TearDown(client_.get());
    if (removed.ok()) return;
    report_->findings.push_back(
        {Verdict::kErrors, absl::StrCat("clean-up: ", removed.message())});
  }

  const LoadtestOptions options_;
  const std::atomic<bool>& stop_;
  LiveLine* const live_;
  LoadtestReport* const report_;
  std::unique_ptr<Client> client_;
  std::optional<LayerSetup> setup_;
  LoadTargets targets_;
};

}  // namespace

LoadtestReport RunLoadTest(const LoadtestOptions& options,
                           const std::atomic<bool>& stop, LiveLine* live) {
  LoadtestReport report;
  report.title = options.output.title;
  report.started_at = absl::Now();
  report.verify.mode = std::string(Name(options.verify));
  LoadTest test(options, stop, live, &report);
  const absl::Status status = test.Run();
  live->Say("");
  std::vector<Finding> findings;
  if (!status.ok()) {
    findings.push_back(
        {stop ? Verdict::kInterrupted : Verdict::kNotStarted,
         absl::StrCat(status.message(), " (",
                      absl::StatusCodeToString(status.code()), ")")});
  }
  for (Finding& finding : Judge(report, options)) {
    findings.push_back(std::move(finding));
  }
  for (Finding& finding : report.findings) {
    findings.push_back(std::move(finding));
  }
  report.findings = std::move(findings);
  return report;
}

}  // namespace qgemm::loadtest
