// SPDX-License-Identifier: Apache-2.0
//
// Drives a backend in this process as the server does, without the server: so
// many batches at a time, each of so many requests. Its times are what a
// service's are to be compared with:
//   backend_bench --backend=cuda --shape=4096x4096 --requests=1,16,64

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "bench/bench_case.h"
#include "bench/synthetic_layer.h"
#include "flags/command_line.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/backend.h"
#include "nlohmann/json.hpp"

namespace qgemm {
namespace {

struct DriverOptions {
  BackendOptions backend;
  std::string shape = "4096x4096";
  std::string format = "kbit4";
  int64_t m = 1;
  std::vector<std::string> requests = {"1", "16", "64"};
  int in_flight = 1;
  absl::Duration turn = absl::Milliseconds(300);
  int turns = 5;
  std::string json;
};

std::unique_ptr<CLI::App> MakeDriverApp(DriverOptions* options) {
  std::unique_ptr<CLI::App> app = flags::MakeApp(
      "Times a backend in this process, without the server.", "backend_bench");
  flags::AddChoice<BackendKind>(
      app.get(), "backend", &options->backend.kind,
      {std::begin(kBackendKinds), std::end(kBackendKinds)},
      "Backend to drive, as the server's.");
  flags::AddOption(app.get(), "shape", &options->shape, "The layer, KxN.");
  flags::AddOption(app.get(), "format", &options->format,
                   "Format of the layer.");
  flags::AddOption(app.get(), "m", &options->m, "Rows of a request.");
  flags::AddOption(app.get(), "requests", &options->requests,
                   "Requests of a batch, comma-separated.");
  flags::AddOption(app.get(), "in_flight", &options->in_flight,
                   "Batches at a time.");
  flags::AddDuration(app.get(), "turn", &options->turn, "Length of a turn.");
  flags::AddOption(app.get(), "turns", &options->turns,
                   "Turns of each case; the first does not count.");
  flags::AddOption(app.get(), "json", &options->json,
                   "File to write the results to as well. Empty: none.");
  return app;
}

// Durations of a case's batches, in nanoseconds.
struct Samples {
  Histogram latency;
  Histogram host_to_device;
  Histogram kernel;
  Histogram device_to_host;
  absl::Duration measured;
};

// Keeps batches in flight until it is told to stop.
class Driver {
 public:
  static absl::StatusOr<std::unique_ptr<Driver>> Create(
      const DriverOptions& options, const BenchCase& bench_case) {
    std::unique_ptr<Driver> driver(new Driver());
    ASSIGN_OR_RETURN(driver->backend_, CreateBackend(options.backend));
    driver->in_flight_ = options.in_flight;
    ASSIGN_OR_RETURN(driver->weights_,
                     MakeSyntheticLayer(bench_case, 1, driver->backend_.get()));
    driver->case_ = bench_case;
    return driver;
  }

  // Runs for `duration` and adds what it saw to `samples`.
  absl::Status Run(int requests, absl::Duration duration, Samples& samples) {
    const absl::Time begin = absl::Now();
    {
      MutexLock lock(&mutex_);
      end_ = begin + duration;
      samples_ = &samples;
      running_ = in_flight_;
    }
    for (int i = 0; i < in_flight_; ++i) {
      ASSIGN_OR_RETURN(GemmBatch batch, NewBatch(requests));
      Start(std::move(batch));
    }
    MutexLock lock(&mutex_);
    while (running_ > 0) idle_.Wait(&mutex_);
    leases_.clear();
    samples.measured += absl::Now() - begin;
    return status_;
  }

 private:
  Driver() = default;

  absl::StatusOr<uint8_t*> NewStaging(int64_t size_bytes) {
    ASSIGN_OR_RETURN(StagingLease lease, backend_->AcquireStaging(size_bytes));
    std::fill_n(lease.data(), size_bytes, uint8_t{0});
    leases_.push_back(std::move(lease));
    return leases_.back().data();
  }

  absl::StatusOr<GemmBatch> NewBatch(int requests) {
    GemmBatch batch;
    batch.weights = weights_;
    batch.signature = case_.signature();
    const int64_t element = SizeOf(case_.dtype);
    for (int i = 0; i < requests; ++i) {
      RowSegment segment;
      segment.rows = case_.m;
      ASSIGN_OR_RETURN(segment.a,
                       NewStaging(case_.m * case_.shape.k * element));
      ASSIGN_OR_RETURN(segment.c,
                       NewStaging(case_.m * case_.shape.n * element));
      batch.segments.push_back(segment);
    }
    return batch;
  }

  void Start(GemmBatch batch) {
    const absl::Time begin = absl::Now();
    const absl::Status status = backend_->Enqueue(
        std::move(batch),
        [this, begin](const absl::Status& done, const BatchTimings& timings,
                      GemmBatch finished) {
          Finish(begin, done, timings, std::move(finished));
        });
    if (!status.ok()) Stop(status);
  }

  void Finish(absl::Time begin, const absl::Status& status,
              const BatchTimings& timings, GemmBatch batch) {
    const absl::Time now = absl::Now();
    if (!status.ok()) return Stop(status);
    {
      MutexLock lock(&mutex_);
      samples_->latency.Record(absl::ToInt64Nanoseconds(now - begin));
      samples_->host_to_device.Record(
          absl::ToInt64Nanoseconds(timings.host_to_device));
      samples_->kernel.Record(absl::ToInt64Nanoseconds(timings.kernel));
      samples_->device_to_host.Record(
          absl::ToInt64Nanoseconds(timings.device_to_host));
    }
    if (now >= end_) return Stop(absl::OkStatus());
    Start(std::move(batch));
  }

  void Stop(const absl::Status& status) {
    MutexLock lock(&mutex_);
    status_.Update(status);
    if (--running_ == 0) idle_.Signal();
  }

  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const ResidentWeights> weights_;
  BenchCase case_;
  int in_flight_ = 1;
  std::vector<StagingLease> leases_;
  absl::Time end_;

  Mutex mutex_;
  CondVar idle_;
  Samples* samples_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<BenchCase> CaseOf(const DriverOptions& options) {
  const std::vector<std::string> sides = absl::StrSplit(options.shape, 'x');
  BenchCase result;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &result.shape.k) ||
      !absl::SimpleAtoi(sides[1], &result.shape.n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--shape = \"", options.shape, "\" is not KxN, such as 4096x4096"));
  }
  result.format = options.format;
  result.m = options.m;
  if (result.m >= 1) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("--m = ", result.m, " is below 1"));
}

absl::StatusOr<std::vector<int>> RequestsOf(const DriverOptions& options) {
  std::vector<int> result;
  for (const std::string& piece : options.requests) {
    result.emplace_back();
    if (!absl::SimpleAtoi(piece, &result.back()) || result.back() < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--requests = \"", piece, "\" is not a whole number from 1"));
    }
  }
  return result;
}

nlohmann::json Report(int requests, int64_t m, const Samples& samples) {
  const double batches = static_cast<double>(samples.latency.count());
  const double rows = batches * requests * static_cast<double>(m);
  const double rows_per_second = rows / absl::ToDoubleSeconds(samples.measured);
  const auto micros = [](const Histogram& histogram, double percent) {
    return static_cast<double>(histogram.Percentile(percent)) / 1000;
  };
  std::cout << absl::StrFormat(
      "%4d requests  p50 %8.1f us  p99 %8.1f us  rows/s %9.0f  "
      "in %.1f kernel %.1f out %.1f us\n",
      requests, micros(samples.latency, 50), micros(samples.latency, 99),
      rows_per_second, micros(samples.host_to_device, 50),
      micros(samples.kernel, 50), micros(samples.device_to_host, 50));
  return {{"requests", requests},
          {"batches", samples.latency.count()},
          {"p50_us", micros(samples.latency, 50)},
          {"p99_us", micros(samples.latency, 99)},
          {"rows_per_second", rows_per_second},
          {"host_to_device_us", micros(samples.host_to_device, 50)},
          {"kernel_us", micros(samples.kernel, 50)},
          {"device_to_host_us", micros(samples.device_to_host, 50)}};
}

absl::Status WriteJson(const DriverOptions& options,
                       const nlohmann::json& results) {
  std::ofstream file(options.json);
  file << nlohmann::json({{"shape", options.shape},
                          {"format", options.format},
                          {"m", options.m},
                          {"in_flight", options.in_flight},
                          {"results", results}})
              .dump(1)
       << "\n";
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::UnknownError(
      absl::StrCat("--json = \"", options.json, "\": cannot write the file"));
}

absl::Status Run(const DriverOptions& options) {
  ASSIGN_OR_RETURN(const BenchCase bench_case, CaseOf(options));
  ASSIGN_OR_RETURN(const std::vector<int> all_requests, RequestsOf(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Driver> driver,
                   Driver::Create(options, bench_case));
  nlohmann::json results = nlohmann::json::array();
  for (const int requests : all_requests) {
    Samples samples;
    for (int turn = 0; turn < options.turns; ++turn) {
      if (turn == 1) samples = Samples();
      RETURN_IF_ERROR(driver->Run(requests, options.turn, samples));
    }
    results.push_back(Report(requests, options.m, samples));
  }
  return options.json.empty() ? absl::OkStatus() : WriteJson(options, results);
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  qgemm::DriverOptions options;
  const std::unique_ptr<CLI::App> app = qgemm::MakeDriverApp(&options);
  if (const auto code = qgemm::flags::Parse(app.get(), argc, argv)) {
    return *code;
  }
  const absl::Status status = qgemm::Run(options);
  if (status.ok()) return 0;
  std::cerr << "backend_bench: " << status << "\n";
  return 1;
}
