// SPDX-License-Identifier: Apache-2.0
//
// Hands the chunks that one thread reads to several that send them.

#ifndef QGEMM_CLIENT_CHUNK_RELAY_H_
#define QGEMM_CLIENT_CHUNK_RELAY_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "qgemm/v1/qgemm.pb.h"

namespace qgemm {

// Holds one chunk, which every taker takes before the next one comes: all are
// as fast as the slowest. One that keeps the others waiting for too long is
// left behind. Thread-safe.
class ChunkRelay {
 public:
  using Chunk = std::shared_ptr<const v1::LoadWeightsRequest>;

  // For takers numbered from 0. `on_behind` is called from Put, with no lock
  // held, for each that is left behind because others waited for `patience`.
  ChunkRelay(size_t takers, absl::Duration patience,
             std::function<void(size_t taker)> on_behind);
  ChunkRelay(const ChunkRelay&) = delete;
  ChunkRelay& operator=(const ChunkRelay&) = delete;

  // Waits until the chunk before was taken. False if there is no taker left.
  bool Put(Chunk chunk);

  enum class End { kWhole, kBroken };
  // The last chunk was put, or none follows because of an error.
  void Close(End end);

  // Waits for the taker's next chunk. Null if there is none: IsWhole tells why.
  Chunk Take(size_t taker);
  // True if the taker has taken all chunks.
  bool IsWhole(size_t taker) const;
  bool IsBehind(size_t taker) const;
  // The taker takes no more.
  void Leave(size_t taker);

 private:
  // A taker sends the chunk that it took last, or waits for the next one, or
  // has one to take; or it is not counted any more.
  enum class Taker { kSends, kWaits, kHasToTake, kBehind, kLeft };

  size_t Count(Taker state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until nobody has to take the chunk. Returns those that were left
  // behind because somebody waited for the next one for too long.
  std::vector<size_t> AwaitTakers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration patience_;
  const std::function<void(size_t taker)> on_behind_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Taker> takers_ ABSL_GUARDED_BY(mutex_);
  Chunk chunk_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CHUNK_RELAY_H_
