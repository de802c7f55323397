// SPDX-License-Identifier: Apache-2.0
//
// The bearer token of a client's calls, from a text or a file.

#ifndef QGEMM_CLIENT_TOKEN_H_
#define QGEMM_CLIENT_TOKEN_H_

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace qgemm {

// Thread-safe.
class TokenSource {
 public:
  // Source of the text or the file, whichever is not empty; null if both are. A
  // file is read again by a call that comes `refresh` or more after it was,
  // but a pipe is read once.
  // Errors: INVALID_ARGUMENT (both given; not a token, which has visible ASCII
  // characters alone); NOT_FOUND (the file cannot be read).
  static absl::StatusOr<std::shared_ptr<TokenSource>> Create(
      absl::string_view text, const std::string& file,
      absl::Duration refresh = absl::Seconds(1));

  // Adds the token to a call that has not started.
  void Authorize(grpc::ClientContext* context);

  // The last token that the text or file had.
  std::string token();

 private:
  TokenSource(std::string token, std::string file, absl::Duration refresh);

  const std::string file_;  // empty: the token stays
  const absl::Duration refresh_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_read_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace qgemm

#endif  // QGEMM_CLIENT_TOKEN_H_
