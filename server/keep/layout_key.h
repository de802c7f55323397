// SPDX-License-Identifier: Apache-2.0
//
// A key of the code and the device that the bytes of repacked layers depend on.

#ifndef QGEMM_SERVER_KEEP_LAYOUT_KEY_H_
#define QGEMM_SERVER_KEEP_LAYOUT_KEY_H_

#include "absl/status/statusor.h"
#include "base/sha256.h"
#include "kernels/matrix/backend.h"

namespace qgemm {

// Has small layers of fixed bytes decoded and repacked, of every wire format
// and every kind that the backend offers, and hashes what became of them, and
// the version of the program. The backend has images. Errors: NewBuilder's,
// those of LayerImages::Describe.
absl::StatusOr<Sha256Digest> LayoutKeyOf(Backend* backend);

}  // namespace qgemm

#endif  // QGEMM_SERVER_KEEP_LAYOUT_KEY_H_
