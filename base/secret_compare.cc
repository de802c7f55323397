// SPDX-License-Identifier: Apache-2.0

#include "base/secret_compare.h"

#include <openssl/crypto.h>

namespace qgemm {

bool SecretsEqual(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace qgemm
