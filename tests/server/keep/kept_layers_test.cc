// SPDX-License-Identifier: Apache-2.0
//
// The manifest as the next server finds it, whenever the last one ended.

#include "server/keep/kept_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/server/keep/fake_kept_memory.h"

namespace qgemm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr Sha256Digest kLayoutKey = {1, 2, 3};

class KeptLayersTest : public ::testing::Test {
 protected:
  std::unique_ptr<KeptLayers> Open(const Sha256Digest& key = kLayoutKey,
                                   int64_t max_layers = 10) {
    auto kept = KeptLayers::Open(&memory_, &holder_, key, max_layers);
    CHECK(kept.ok()) << kept.status();
    return *std::move(kept);
  }

  static KeptEntry Enter(int64_t number, KeptLayers* kept) {
    return kept->Enter(std::string(64, static_cast<char>('0' + number)), "spec",
                       FakeLayer(number));
  }

  static std::vector<int64_t> Offsets(KeptLayers* kept) {
    std::vector<int64_t> offsets;
    for (const ManifestRecord& record : kept->TakeRecords()) {
      offsets.push_back(record.layer.offset_bytes);
    }
    return offsets;
  }

  FakeKeptMemory memory_;
  FakeHolder holder_;
};

TEST_F(KeptLayersTest, LayersThatWereInMemoryAreFoundAndOthersAreNot) {
  // Never destroyed, as of a server that was killed.
  auto* const killed = Open().release();
  auto* const first = new KeptEntry(Enter(1, killed));
  { const KeptEntry left = Enter(2, killed); }
  auto* const third = new KeptEntry(Enter(3, killed));
  EXPECT_FALSE(first->is_null() || third->is_null());
  const auto heir = Open();
  EXPECT_THAT(Offsets(heir.get()), ElementsAre(256, 3 * 256));
}

TEST_F(KeptLayersTest, WhatAnHeirDoesNotEnterIsGoneForTheNextOne) {
  auto* const killed = Open().release();
  new KeptEntry(Enter(1, killed));
  new KeptEntry(Enter(2, killed));
  auto* const heir = Open().release();
  EXPECT_THAT(Offsets(heir), UnorderedElementsAre(256, 512));
  new KeptEntry(Enter(2, heir));
  heir->EndInheritance();
  EXPECT_TRUE(memory_.adoption_has_ended);
  EXPECT_THAT(Offsets(Open().get()), ElementsAre(512));
}

TEST_F(KeptLayersTest, AnHeirThatIsKilledAtOnceLosesNothing) {
  auto* const killed = Open().release();
  new KeptEntry(Enter(1, killed));
  auto* const heir = Open().release();
  new KeptEntry(Enter(1, heir));
  EXPECT_THAT(Offsets(Open().get()), ElementsAre(256, 256));
}

TEST_F(KeptLayersTest, AFrozenManifestStaysAsItIs) {
  auto server = Open();
  {
    const KeptEntry entry = Enter(1, server.get());
    server->Freeze();
  }
  EXPECT_TRUE(Enter(2, server.get()).is_null());
  server->Freeze();
  server.reset();
  EXPECT_THAT(Offsets(Open().get()), ElementsAre(256));
}

TEST_F(KeptLayersTest, TheHolderHasTheManifestAndTheChunks) {
  auto server = Open();
  memory_.watcher()->ChunkMade(3, 1024, 0);
  memory_.watcher()->ChunkMade(4, 2048, 0);
  EXPECT_THAT(holder_.stored,
              ElementsAre(Key("qgemm.chunk.3.1024"), Key("qgemm.chunk.4.2048"),
                          Key("qgemm.manifest")));
  memory_.watcher()->ChunkDropped(3);
  EXPECT_THAT(holder_.stored,
              ElementsAre(Key("qgemm.chunk.4.2048"), Key("qgemm.manifest")));
  const auto heir = Open();
  EXPECT_THAT(memory_.adopted, ElementsAre(Pair(4, 2048)));
  memory_.watcher()->ChunkDropped(4);
  EXPECT_THAT(holder_.stored, ElementsAre(Key("qgemm.manifest")));
}

TEST_F(KeptLayersTest, NamesOfNoChunkAreDropped) {
  const auto server = Open();
  for (const char* const name :
       {"qgemm.chunk.1", "qgemm.chunk.1.0", "qgemm.chunk.1.-5",
        "qgemm.chunk.01.5", "qgemm.chunk.1.5.6", "qgemm.chunk.x.5",
        "qgemm.chunk.4294967296.5", "other", ""}) {
    CHECK_OK(holder_.Store(name, 0));
  }
  Open();
  EXPECT_THAT(memory_.adopted, IsEmpty());
  EXPECT_THAT(holder_.stored, ElementsAre(Key("qgemm.manifest")));
}

TEST_F(KeptLayersTest, OfAnotherLayoutOrDriverNothingIsTaken) {
  for (const bool has_other_driver : {false, true}) {
    auto server = Open();
    const KeptEntry entry = Enter(1, server.get());
    memory_.watcher()->ChunkMade(3, 1024, 0);
    if (has_other_driver) memory_.SetDriverVersion(5);
    const auto heir = Open(has_other_driver ? kLayoutKey : Sha256Digest{9});
    EXPECT_THAT(Offsets(heir.get()), IsEmpty());
    EXPECT_THAT(memory_.adopted, IsEmpty());
    EXPECT_THAT(holder_.stored, ElementsAre(Key("qgemm.manifest")));
    holder_.stored.clear();
  }
}

TEST_F(KeptLayersTest, WithoutAManifestNothingIsTaken) {
  CHECK_OK(holder_.Store("qgemm.chunk.1.1024", 0));
  EXPECT_THAT(Offsets(Open().get()), IsEmpty());
  EXPECT_THAT(memory_.adopted, IsEmpty());
  holder_.stored.clear();
  CHECK_OK(holder_.Store("qgemm.manifest", 0));  // no memfd
  EXPECT_THAT(Offsets(Open().get()), IsEmpty());
}

TEST_F(KeptLayersTest, MoreLayersThanTheManifestHasRoomForAreNotKept) {
  const auto server = Open(kLayoutKey, 1);
  const KeptEntry first = Enter(1, server.get());
  KeptEntry second = Enter(2, server.get());
  EXPECT_FALSE(first.is_null() || second.is_null());
  EXPECT_TRUE(Enter(3, server.get()).is_null());
  second = KeptEntry();
  EXPECT_FALSE(Enter(3, server.get()).is_null());
}

}  // namespace
}  // namespace qgemm
