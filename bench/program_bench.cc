// SPDX-License-Identifier: Apache-2.0

#include "bench/program_bench.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/checked_math.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "bench/synthetic_layer.h"

namespace qgemm {
namespace {

constexpr int kMaxCopies = 512;
constexpr int kMaxLaunches = 1000;

// Holds the end of a launch for the thread that waits for it.
class LaunchEnd {
 public:
  void Set(const absl::Status& status, const BatchTimings& timings) {
    MutexLock lock(&mutex_);
    ended_ = true;
    status_ = status;
    timings_ = timings;
    changed_.Signal();
  }

  absl::StatusOr<BatchTimings> Await() {
    MutexLock lock(&mutex_);
    while (!ended_) changed_.Wait(&mutex_);
    RETURN_IF_ERROR(status_);
    return timings_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  BatchTimings timings_ ABSL_GUARDED_BY(mutex_);
};

absl::Duration MedianOf(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

struct LaunchSample {
  absl::Duration whole;
  absl::Duration kernel;
};

// Times one launch, which `enqueue` starts with an end to set.
template <typename Enqueue>
absl::StatusOr<LaunchSample> TimeLaunch(Enqueue enqueue) {
  LaunchEnd end;
  const absl::Time start = SteadyClock().Now();
  RETURN_IF_ERROR(enqueue(&end));
  ASSIGN_OR_RETURN(const BatchTimings timings, end.Await());
  return LaunchSample{SteadyClock().Now() - start, timings.kernel};
}

class LaunchSamples {
 public:
  void Add(const LaunchSample& sample) {
    whole_.push_back(sample.whole);
    kernel_.push_back(sample.kernel);
  }

  LaunchTimes Summarize() const {
    return {MedianOf(whole_), *std::min_element(whole_.begin(), whole_.end()),
            *std::max_element(whole_.begin(), whole_.end()), MedianOf(kernel_)};
  }

 private:
  std::vector<absl::Duration> whole_;
  std::vector<absl::Duration> kernel_;
};

// One number of rows of a program and of its products: operands and samples.
class RowsRun {
 public:
  RowsRun(Backend* backend, const CheckedProgram& program, int64_t m)
      : backend_(backend), program_(program), m_(m) {}

  absl::Status Prepare() {
    ASSIGN_OR_RETURN(uint8_t* const inputs,
                     NewStaging(m_ * program_.input_row_bytes()));
    uint8_t* input = inputs;
    for (const ProgramInput& each : program_.program().inputs) {
      FillRandomActivations(FloatTypeOf(each.type), m_ * each.width, input);
      input += m_ * each.width * SizeOf(each.type);
    }
    ASSIGN_OR_RETURN(uint8_t* const outputs,
                     NewStaging(m_ * program_.output_row_bytes()));
    segment_ = {m_, 0, m_, inputs, outputs};
    const int64_t ops = static_cast<int64_t>(program_.ops().size());
    for (int64_t op = 0; op < ops; ++op) {
      if (program_.ops()[op].kind != OpKind::kGemm) continue;
      RETURN_IF_ERROR(AddProduct(op));
    }
    return absl::OkStatus();
  }

  // Launches the program over `first`, then each product over the weights of
  // `second`.
  absl::Status Pass(const std::shared_ptr<const CompiledProgram>& first,
                    const CompiledProgram& second) {
    ASSIGN_OR_RETURN(const LaunchSample program, TimeProgram(first));
    program_samples_.Add(program);
    LaunchSample all;
    for (Product& product : products_) {
      ASSIGN_OR_RETURN(const LaunchSample one, TimeProduct(product, second));
      product.samples.Add(one);
      all.whole += one.whole;
      all.kernel += one.kernel;
    }
    product_samples_.Add(all);
    return absl::OkStatus();
  }

  void DropSamples() {
    program_samples_ = product_samples_ = LaunchSamples();
    for (Product& each : products_) each.samples = LaunchSamples();
  }

  ProgramTimes Summarize(const BenchProgram& named) const {
    ProgramTimes times;
    times.m = m_;
    times.program = program_samples_.Summarize();
    times.all_products = product_samples_.Summarize();
    for (const Product& each : products_) {
      const std::string& name = program_.ops()[each.op].weights;
      times.products.push_back(
          {each.op, named.weights.at(name), each.samples.Summarize()});
    }
    return times;
  }

 private:
  struct Product {
    int64_t op = 0;
    RowSegment rows;
    LaunchSamples samples;
  };

  absl::StatusOr<LaunchSample> TimeProgram(
      const std::shared_ptr<const CompiledProgram>& program) {
    return TimeLaunch([&](LaunchEnd* end) {
      return backend_->programs()->EnqueueProgram(
          {program, {segment_}},
          [end](const absl::Status& status, const BatchTimings& timings,
                const ProgramBatch&) { end->Set(status, timings); });
    });
  }

  absl::StatusOr<LaunchSample> TimeProduct(const Product& product,
                                           const CompiledProgram& weights) {
    return TimeLaunch([&](LaunchEnd* end) {
      GemmBatch batch;
      batch.weights = weights.weights()[program_.weights_of(product.op)];
      batch.signature = program_.signature_of(product.op);
      batch.segments = {product.rows};
      return backend_->Enqueue(
          std::move(batch),
          [end](const absl::Status& status, const BatchTimings& timings,
                const GemmBatch&) { end->Set(status, timings); });
    });
  }

  absl::Status AddProduct(int64_t op) {
    const MatmulSignature signature = program_.signature_of(op);
    const int64_t a_elements =
        m_ * program_.values()[program_.ops()[op].x].width;
    const int64_t c_elements =
        m_ * program_.values()[program_.result_of(op)].width;
    ASSIGN_OR_RETURN(uint8_t* const a,
                     NewStaging(a_elements * SizeOf(signature.a_type)));
    FillRandomActivations(signature.a_type, a_elements, a);
    ASSIGN_OR_RETURN(uint8_t* const c,
                     NewStaging(c_elements * SizeOf(signature.c_type)));
    products_.push_back({op, {m_, a, c}, LaunchSamples()});
    return absl::OkStatus();
  }

  absl::StatusOr<uint8_t*> NewStaging(int64_t size_bytes) {
    ASSIGN_OR_RETURN(StagingLease lease, backend_->AcquireStaging(size_bytes));
    leases_.push_back(std::move(lease));
    return leases_.back().data();
  }

  Backend* const backend_;
  const CheckedProgram& program_;
  const int64_t m_;
  std::vector<StagingLease> leases_;
  ProgramSegment segment_;
  std::vector<Product> products_;
  LaunchSamples program_samples_;
  LaunchSamples product_samples_;  // of a pass over all of them
};

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramBench>> ProgramBench::Create(
    Backend* backend, const BenchProgram& program,
    const RotationOptions& options) {
  if (backend->programs() == nullptr) {
    return absl::UnimplementedError(absl::StrCat("--program: the ",
                                                 backend->describe().name,
                                                 " backend runs no programs"));
  }
  ASSIGN_OR_RETURN(CheckedProgram checked, Check(program));
  std::unique_ptr<ProgramBench> bench(new ProgramBench(
      backend, program, options,
      std::make_shared<const CheckedProgram>(std::move(checked))));
  int64_t wanted = 1;
  for (int64_t copy = 0; copy < wanted; ++copy) {
    RETURN_IF_ERROR(bench->LoadCopy(copy));
    wanted = std::clamp<int64_t>(
        CeilDiv(options.total_bytes,
                std::max<int64_t>(1, bench->weights_bytes_)),
        1, kMaxCopies);
  }
  return bench;
}

ProgramBench::ProgramBench(Backend* backend, const BenchProgram& program,
                           const RotationOptions& options,
                           std::shared_ptr<const CheckedProgram> checked)
    : backend_(backend),
      named_(program),
      options_(options),
      checked_(std::move(checked)) {}

absl::Status ProgramBench::LoadCopy(uint64_t seed) {
  WeightsOfProgram weights;
  weights_bytes_ = 0;
  for (const std::string& name : checked_->weights_ids()) {
    // Equal shapes of one copy differ as well.
    const uint64_t layer_seed =
        seed * checked_->weights_ids().size() + weights.size() + 1;
    ASSIGN_OR_RETURN(auto layer, MakeSyntheticLayer(named_.weights.at(name),
                                                    layer_seed, backend_));
    weights_bytes_ += layer->resident_bytes();
    weights.push_back(std::move(layer));
  }
  ASSIGN_OR_RETURN(auto compiled,
                   backend_->programs()->Compile(checked_, std::move(weights)));
  copies_.push_back(std::move(compiled));
  return absl::OkStatus();
}

std::shared_ptr<const CompiledProgram> ProgramBench::NextCopy() {
  return copies_[next_copy_++ % copies_.size()];
}

absl::StatusOr<ProgramTimes> ProgramBench::Run(int64_t m) {
  RowsRun run(backend_, *checked_, m);
  RETURN_IF_ERROR(run.Prepare());
  const auto pass = [&] {
    const auto first = NextCopy();
    return run.Pass(first, *NextCopy());
  };
  for (int i = 0; i < options_.warm_ups; ++i) RETURN_IF_ERROR(pass());
  run.DropSamples();
  const absl::Time end =
      SteadyClock().Now() + options_.samples * options_.sample_time;
  int launches = 0;
  while (launches < options_.samples ||
         (launches < kMaxLaunches && SteadyClock().Now() < end)) {
    RETURN_IF_ERROR(pass());
    ++launches;
  }
  ProgramTimes times = run.Summarize(named_);
  times.launches = launches;
  return times;
}

}  // namespace qgemm
