// SPDX-License-Identifier: Apache-2.0
//
// Recordings have the addresses of scratch memory: when it grows they go.

#include "kernels/cuda/recorded_gemms.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/launch/program_rows.h"
#include "kernels/cuda/plan/program_plan.h"
#include "kernels/cuda/runtime/cuda_status.h"

namespace qgemm::cuda {
namespace {

// Bytes of the activations and results of a batch that is recorded, at most.
// If rows lie in new places, the GPU reads from a table in host memory where
// they are, and only then the rows, which takes 3 to 5 us more. On an H100: 1
// row of 4096x4096 25 us instead of 28, 64 rows of 8192x8192, 2 MiB, 94 instead
// of 90.
constexpr int64_t kMaxRecordedBytes = int64_t{512} << 10;

// Rows of the recording that runs the launch; 0: none does.
int64_t RoomOf(const PlannedLaunch& launch, const BatchShape& shape) {
  const int64_t row_bytes = shape.a_row_bytes + shape.c_row_bytes;
  const bool may = launch.shared && launch.path != KernelPath::kCublas &&
                   launch.rows * row_bytes <= kMaxRecordedBytes;
  return may ? RecordedRows(launch.rows) : 0;
}

// The place of a batch of one request.
RequestPlace PlaceOf(const GemmBatch& batch) {
  if (batch.segments.size() != 1) return {};
  const RowSegment& segment = batch.segments[0];
  return {segment.a, segment.c, segment.rows};
}

MovedValues RowsAt(uint8_t* device, int64_t row_bytes) {
  MovedValues moved;
  moved.values[moved.count++] = {device, row_bytes, 0};
  return moved;
}

}  // namespace

absl::StatusOr<bool> RecordedGemms::Enqueue(
    const GemmBatch& batch, const GemmJob& job, const PlannedLaunch& launch,
    const LaunchEnvironment& environment) {
  const int64_t room = RoomOf(launch, job.shape);
  if (room == 0) return false;
  Key key = {job.weights.get(), job.mode, job.a_type,    job.c_type,
             job.rounded_type,  room,     RequestPlace()};
  Entry* entry = Find(key);
  if (entry == nullptr) entry = Add(key, job);
  if (entry->batches < kBatchesBefore) {
    ++entry->batches;
    return false;
  }
  RequestPlace place = PlaceOf(batch);
  if (place.m == 0 || !entry->places.Observe(place) ||
      !MakePlaced(place, job, key)) {
    place = RequestPlace();  // the table says where
  }
  std::get<RequestPlace>(key) = place;
  entry = Find(key);
  if (!entry->graph.has_value()) {
    ASSIGN_OR_RETURN(entry->graph, Record(job, room, place, environment));
  }
  if (place.m == 0) FillTable(batch, room);
  RETURN_IF_ERROR(entry->graph->Launch(stream_));
  end_.ExpectStamps();
  return true;
}

RecordedGemms::Entry* RecordedGemms::Find(const Key& key) {
  Entry* const entry = entries_.Find(key);
  return entry == nullptr || entry->weights.expired() ? nullptr : entry;
}

RecordedGemms::Entry* RecordedGemms::Add(const Key& key, const GemmJob& job) {
  Entry entry;
  entry.weights = job.weights;
  return entries_.Add(key, std::move(entry));
}

bool RecordedGemms::MakePlaced(const RequestPlace& place, const GemmJob& job,
                               Key key) {
  std::get<RequestPlace>(key) = place;
  if (Find(key) != nullptr) return true;
  if (!entries_.HasRoom()) return false;
  Add(key, job);
  return true;
}

absl::StatusOr<Graph> RecordedGemms::Record(
    const GemmJob& job, int64_t room, const RequestPlace& place,
    const LaunchEnvironment& environment) {
  rows_.assign(room, {1, nullptr, nullptr});
  plan_.Make(rows_, job.shape,
             [&](int64_t rows) { return job.PathOf(rows, environment); });
  RETURN_IF_ERROR(Reserve(plan_));
  return Graph::Record(stream_, [&] {
    return EnqueueKernels(job, plan_.launches().front(), place, environment);
  });
}

absl::Status RecordedGemms::Reserve(const LaunchPlan& plan) {
  RETURN_IF_ERROR(tables_.Reserve());
  if (plan.scratch_bytes() <= scratch_.size_bytes()) return absl::OkStatus();
  entries_.ForEach([](Entry& entry) { entry.graph.reset(); });
  return cuda::Reserve(plan.scratch_bytes(), scratch_);
}

void RecordedGemms::FillTable(const GemmBatch& batch, int64_t room) {
  HostRow* row = tables_.rows();
  for (const RowSegment& segment : batch.segments) {
    for (int64_t number = 0; number < segment.rows; ++number) {
      *row++ = {segment.a, segment.c, segment.rows, number};
    }
  }
  std::fill(row, tables_.rows() + room, HostRow());
}

absl::Status RecordedGemms::EnqueueKernels(
    const GemmJob& job, const PlannedLaunch& launch, const RequestPlace& place,
    const LaunchEnvironment& environment) {
  uint8_t* const scratch = scratch_.data();
  RETURN_IF_ERROR(ToStatus(
      LaunchGatherProgramRows(
          RowsAt(scratch + launch.a_offset, job.shape.a_row_bytes), launch.rows,
          tables_.BeginAt(place, end_.progress()), stream_),
      "gather activations"));
  const LaunchMemory memory = {
      scratch + launch.a_offset, scratch + launch.rounded_offset,
      scratch + launch.prepared_offset, scratch + launch.c_offset};
  RETURN_IF_ERROR(
      EnqueueGemm(job, launch, memory, environment, stream_scratch_, stream_));
  return ToStatus(
      LaunchScatterProgramRows(
          RowsAt(scratch + launch.c_offset, job.shape.c_row_bytes), launch.rows,
          tables_.device(), {end_.progress(), end_.stamps()}, stream_),
      "scatter results");
}

}  // namespace qgemm::cuda
