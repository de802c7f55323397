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
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/histogram.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "bench/bench_case.h"
#include "bench/synthetic_layer.h"
#include "kernels/backends/backends.h"
#include "kernels/matrix/backend.h"
#include "nlohmann/json.hpp"

ABSL_FLAG(std::string, backend, "auto", "As the server's.");
ABSL_FLAG(std::string, shape, "4096x4096", "Of the layer, KxN.");
ABSL_FLAG(std::string, format, "kbit4", "Of the layer.");
ABSL_FLAG(int64_t, m, 1, "Rows of a request.");
ABSL_FLAG(std::string, requests, "1,16,64",
          "Requests of a batch, comma-separated.");
ABSL_FLAG(int, in_flight, 1, "Batches at a time.");
ABSL_FLAG(absl::Duration, turn, absl::Milliseconds(300), "Length of a turn.");
ABSL_FLAG(int, turns, 5, "Turns of each case; the first does not count.");
ABSL_FLAG(std::string, json, "", "Also write the results to this file.");

namespace qgemm {
namespace {

// What the batches of a case took, in nanoseconds.
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
      const BenchCase& bench_case) {
    std::unique_ptr<Driver> driver(new Driver());
    BackendOptions options;
    options.name = absl::GetFlag(FLAGS_backend);
    ASSIGN_OR_RETURN(driver->backend_, CreateBackend(options));
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
      running_ = absl::GetFlag(FLAGS_in_flight);
    }
    for (int i = 0; i < absl::GetFlag(FLAGS_in_flight); ++i) {
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
  std::vector<StagingLease> leases_;
  absl::Time end_;

  Mutex mutex_;
  CondVar idle_;
  Samples* samples_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<BenchCase> CaseOfFlags() {
  const std::vector<std::string> sides =
      absl::StrSplit(absl::GetFlag(FLAGS_shape), 'x');
  BenchCase result;
  if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &result.shape.k) ||
      !absl::SimpleAtoi(sides[1], &result.shape.n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--shape: '", absl::GetFlag(FLAGS_shape), "'; legal: KxN"));
  }
  result.format = absl::GetFlag(FLAGS_format);
  result.m = absl::GetFlag(FLAGS_m);
  if (result.m >= 1) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("--m: ", result.m, "; legal: 1 or more"));
}

absl::StatusOr<std::vector<int>> RequestsOfFlags() {
  std::vector<int> result;
  for (const absl::string_view piece :
       absl::StrSplit(absl::GetFlag(FLAGS_requests), ',')) {
    result.emplace_back();
    if (!absl::SimpleAtoi(piece, &result.back()) || result.back() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--requests: '", piece, "'; legal: 1 or more"));
    }
  }
  return result;
}

nlohmann::json Report(int requests, const Samples& samples) {
  const double batches = static_cast<double>(samples.latency.count());
  const double rows =
      batches * requests * static_cast<double>(absl::GetFlag(FLAGS_m));
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

absl::Status Run() {
  ASSIGN_OR_RETURN(const BenchCase bench_case, CaseOfFlags());
  ASSIGN_OR_RETURN(const std::vector<int> all_requests, RequestsOfFlags());
  ASSIGN_OR_RETURN(const std::unique_ptr<Driver> driver,
                   Driver::Create(bench_case));
  nlohmann::json results = nlohmann::json::array();
  for (const int requests : all_requests) {
    Samples samples;
    for (int turn = 0; turn < absl::GetFlag(FLAGS_turns); ++turn) {
      if (turn == 1) samples = Samples();
      RETURN_IF_ERROR(
          driver->Run(requests, absl::GetFlag(FLAGS_turn), samples));
    }
    results.push_back(Report(requests, samples));
  }
  const std::string path = absl::GetFlag(FLAGS_json);
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << nlohmann::json({{"shape", absl::GetFlag(FLAGS_shape)},
                          {"format", bench_case.format},
                          {"m", bench_case.m},
                          {"in_flight", absl::GetFlag(FLAGS_in_flight)},
                          {"results", results}})
              .dump(1)
       << "\n";
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("--json: cannot write ", path));
}

}  // namespace
}  // namespace qgemm

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Times a backend in this process: backend_bench --backend=cuda");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = qgemm::Run();
  if (status.ok()) return 0;
  std::cerr << "backend_bench: " << status << "\n";
  return 1;
}
