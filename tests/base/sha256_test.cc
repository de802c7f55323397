// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 against NIST's vectors, whole and in pieces.

#include "base/sha256.h"

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {
namespace {

constexpr char kAbcDigest[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string HexOf(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return ToHex(hash.Finish());
}

TEST(Sha256Test, MatchesKnownVectors) {
  EXPECT_EQ(HexOf(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf("abc"), kAbcDigest);
  EXPECT_EQ(HexOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(HexOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, DigestDoesNotDependOnWhereTheBytesAreCut) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes.push_back(static_cast<char>(i * 7));
  const std::string whole = HexOf(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Sha256 hash;
    hash.Update(absl::string_view(bytes).substr(0, cut));
    hash.Update(absl::string_view(bytes).substr(cut));
    ASSERT_EQ(ToHex(hash.Finish()), whole) << "cut at " << cut;
  }
}

TEST(Sha256Test, MovingCarriesTheState) {
  Sha256 first;
  first.Update("a");
  Sha256 second = std::move(first);
  second.Update("b");
  Sha256 third;
  third.Update("forgotten");
  third = std::move(second);
  third.Update("c");
  EXPECT_EQ(ToHex(third.Finish()), kAbcDigest);
}

TEST(Sha256Test, HexIsLowerCaseAndKeepsLeadingZeros) {
  Sha256Digest digest = {};
  digest[0] = 0x0a;
  digest[31] = 0xf0;
  EXPECT_EQ(ToHex(digest), "0a" + std::string(60, '0') + "f0");
}

}  // namespace
}  // namespace qgemm
