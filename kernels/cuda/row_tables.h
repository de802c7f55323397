// SPDX-License-Identifier: Apache-2.0
//
// The table of a stream's batches that tells kernels where the host has rows
// (launch/program_rows.h): the host's, and the device's.

#ifndef QGEMM_KERNELS_CUDA_ROW_TABLES_H_
#define QGEMM_KERNELS_CUDA_ROW_TABLES_H_

#include <new>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "kernels/cuda/launch/program_rows.h"
#include "kernels/cuda/plan/recurring_places.h"
#include "kernels/cuda/runtime/buffers.h"

namespace qgemm::cuda {

class RowTables {
 public:
  // Makes sure of memory for both; nothing else may be called before.
  // Errors: RESOURCE_EXHAUSTED.
  absl::Status Reserve() {
    if (host_.data() != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(device_, DeviceBuffer::Allocate(sizeof(RowTable)));
    ASSIGN_OR_RETURN(host_, PinnedBuffer::Allocate(sizeof(RowTable)));
    new (host_.data()) RowTable();
    return absl::OkStatus();
  }

  // [kMaxTableRows]; no batch that reads them may be under way.
  HostRow* rows() const {
    return reinterpret_cast<RowTable*>(host_.data())->rows;
  }
  RowTable* device() const {
    return reinterpret_cast<RowTable*>(device_.data());
  }

  // Parameters of a batch whose rows lie at `place`, or where rows() says if
  // that is none.
  BatchBeginArgs BeginAt(const RequestPlace& place,
                         BatchProgress* progress) const {
    BatchBeginArgs begin;
    if (place.m > 0) {
      begin.request = {place.inputs, place.outputs, place.m, 0};
    } else {
      begin.host_table = reinterpret_cast<const RowTable*>(host_.data());
    }
    begin.table = device();
    begin.progress = progress;
    return begin;
  }

 private:
  PinnedBuffer host_;    // a RowTable
  DeviceBuffer device_;  // another
};

}  // namespace qgemm::cuda

#endif  // QGEMM_KERNELS_CUDA_ROW_TABLES_H_
