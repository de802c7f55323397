// SPDX-License-Identifier: Apache-2.0
//
// Staging with guard zones around every request's outputs.

#include "tests/conformance/program_run.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "gtest/gtest.h"
#include "tests/conformance/batch_run.h"

namespace qgemm {
namespace {

// Before and after the outputs; keeps them on a 64-byte boundary.
constexpr int64_t kGuardBytes = 128;

StagingLease Acquire(Backend* backend, int64_t size_bytes) {
  absl::StatusOr<StagingLease> lease = backend->AcquireStaging(size_bytes);
  CHECK(lease.ok()) << lease.status();
  return *std::move(lease);
}

bool IsInPart(const ProgramRequest& request, int64_t row) {
  return std::any_of(request.parts.begin(), request.parts.end(),
                     [row](const RequestPart& part) {
                       return row >= part.first && row < part.first + part.rows;
                     });
}

}  // namespace

ProgramRun::ProgramRun(Backend* backend, ProgramSpec spec)
    : backend_(backend), spec_(std::move(spec)) {
  batch_.program = spec_.program;
  batch_.time_ops = spec_.time_ops;
  for (ProgramRequest& request : spec_.requests) Stage(&request);
  segments_ = static_cast<int64_t>(batch_.segments.size());
}

void ProgramRun::Stage(ProgramRequest* request) {
  if (request->parts.empty()) request->parts.push_back({0, request->m});
  Operands operands;
  operands.outputs_bytes =
      request->m * spec_.program->program().output_row_bytes();
  operands.inputs = Acquire(backend_, request->inputs.size());
  operands.outputs =
      Acquire(backend_, operands.outputs_bytes + 2 * kGuardBytes);
  std::copy(request->inputs.begin(), request->inputs.end(),
            operands.inputs.data());
  std::fill_n(operands.outputs.data(), operands.outputs.size_bytes(),
              spec_.poison);
  for (const RequestPart& part : request->parts) {
    batch_.segments.push_back({request->m, part.first, part.rows,
                               operands.inputs.data(),
                               operands.outputs.data() + kGuardBytes});
  }
  operands_.push_back(std::move(operands));
}

absl::Status ProgramRun::Enqueue() {
  return backend_->programs()->EnqueueProgram(
      std::move(batch_),
      [this](absl::Status status, const BatchTimings& timings,
             ProgramBatch batch) {
        Complete(std::move(status), timings, batch);
      });
}

void ProgramRun::Complete(absl::Status status, const BatchTimings& timings,
                          const ProgramBatch& batch) {
  MutexLock lock(&mutex_);
  ++completions_;
  status_ = std::move(status);
  op_times_ = timings.ops;
  if (batch.program == spec_.program) {
    returned_segments_ = static_cast<int64_t>(batch.segments.size());
  }
  // Under the lock: the waiter may destroy this as soon as it is let go.
  completed_.SignalAll();
}

ProgramResults ProgramRun::Wait() {
  {
    MutexLock lock(&mutex_);
    while (completions_ == 0) completed_.Wait(&mutex_);
    EXPECT_EQ(status_, absl::OkStatus());
    EXPECT_EQ(returned_segments_, segments_)
        << "the batch did not come back with its program and segments";
  }
  ProgramResults results;
  for (size_t i = 0; i < operands_.size(); ++i) {
    CheckMemory(i);
    const uint8_t* outputs = operands_[i].outputs.data() + kGuardBytes;
    results.emplace_back(outputs, outputs + operands_[i].outputs_bytes);
  }
  return results;
}

int64_t ProgramRun::completions() const {
  MutexLock lock(&mutex_);
  return completions_;
}

std::vector<absl::Duration> ProgramRun::op_times() const {
  MutexLock lock(&mutex_);
  return op_times_;
}

void ProgramRun::CheckMemory(size_t request) const {
  const Operands& operands = operands_[request];
  const std::vector<uint8_t>& inputs = spec_.requests[request].inputs;
  EXPECT_TRUE(std::equal(inputs.begin(), inputs.end(), operands.inputs.data()))
      << "the backend wrote to the inputs of request " << request;
  const auto is_poison = [this](uint8_t byte) { return byte == spec_.poison; };
  const uint8_t* before = operands.outputs.data();
  const uint8_t* after = before + kGuardBytes + operands.outputs_bytes;
  EXPECT_TRUE(std::all_of(before, before + kGuardBytes, is_poison))
      << "written before the outputs of request " << request;
  EXPECT_TRUE(std::all_of(after, after + kGuardBytes, is_poison))
      << "written after the outputs of request " << request;
  CheckOtherRows(spec_.requests[request], before + kGuardBytes);
}

void ProgramRun::CheckOtherRows(const ProgramRequest& request,
                                const uint8_t* outputs) const {
  const CheckedProgram& program = spec_.program->program();
  const auto is_poison = [this](uint8_t byte) { return byte == spec_.poison; };
  for (const ValueNumber number : program.program().outputs) {
    const int64_t row_bytes = program.values()[number].row_bytes();
    for (int64_t row = 0; row < request.m; ++row, outputs += row_bytes) {
      if (IsInPart(request, row)) continue;
      EXPECT_TRUE(std::all_of(outputs, outputs + row_bytes, is_poison))
          << "written to value " << number << " of row " << row
          << ", which is not in the batch";
    }
  }
}

ProgramResults RunProgram(Backend* backend, ProgramSpec spec) {
  ProgramRun run(backend, std::move(spec));
  const absl::Status status = run.Enqueue();
  CHECK(status.ok()) << status;
  return run.Wait();
}

absl::StatusOr<std::shared_ptr<const CompiledProgram>> LoadAndCompile(
    Backend* backend, const CheckedProgram& program,
    absl::Span<const CanonicalWeights* const> weights) {
  WeightsOfProgram resident;
  for (const CanonicalWeights* layer : weights) {
    resident.push_back(LoadWhole(backend, *layer));
  }
  return backend->programs()->Compile(
      std::make_shared<const CheckedProgram>(program), std::move(resident));
}

}  // namespace qgemm
