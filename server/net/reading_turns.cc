// SPDX-License-Identifier: Apache-2.0

#include "server/net/reading_turns.h"

#include <algorithm>
#include <tuple>

namespace qgemm {
namespace {

// A poll of 500 connections takes some 0.1 ms.
constexpr absl::Duration kRoundTime = absl::Milliseconds(1);
constexpr absl::Duration kTurnTime = absl::Microseconds(500);

// Connections of one client in a round: as many surprises at most.
constexpr int kClientReads = 16;

// Bytes of a turn, by what they cost. The first of them are few, since they may
// cost more than those before. To copy the most takes 80 us.
constexpr int64_t kLeastTurnBytes = int64_t{1} << 10;
constexpr int64_t kFirstReadBytes = int64_t{16} << 10;
constexpr int64_t kMaxTurnBytes = int64_t{256} << 10;

constexpr absl::Duration kHalfLife = absl::Milliseconds(100);

// Connections and clients beyond which those that have come before are learned
// anew.
constexpr size_t kMaxKnown = 4096;

}  // namespace

void ReadingTurns::Cost::Learn(absl::Duration taken, int64_t bytes) {
  read = std::max((read + taken) / 2, absl::Microseconds(1));
  if (bytes == 0) return;
  const absl::Duration taken_kib = taken * 1024.0 / static_cast<double>(bytes);
  kib = std::max((kib + taken_kib) / 2, absl::Nanoseconds(1));
}

int64_t ReadingTurns::Cost::TurnBytes() const {
  const double kibs = absl::FDivDuration(kTurnTime, kib);
  if (kibs >= static_cast<double>(kMaxTurnBytes) / 1024) return kMaxTurnBytes;
  return std::max(kLeastTurnBytes, static_cast<int64_t>(kibs * 1024));
}

void ReadingTurns::BeginRound() {
  const absl::Time now = clock_->Now();
  Learn(now - round_start_);
  Forget(now);
  ++round_;
  round_start_ = now;
  readers_.clear();
  ended_ = false;
  chosen_ = next_;
  next_.reset();
  taken_ = absl::ZeroDuration();
  planned_ =
      chosen_ ? ConnectionOf(chosen_->reader).cost.read : absl::ZeroDuration();
}

void ReadingTurns::Learn(absl::Duration round) {
  if (readers_.empty()) return;
  const double scale = absl::FDivDuration(round, taken_);
  for (const Reader reader : readers_) {
    Connection& connection = ConnectionOf(reader);
    Client& client = ClientOf(reader);
    const absl::Duration taken = connection.cost.read * scale;
    connection.cost.Learn(taken, connection.bytes);
    client.cost.Learn(taken, connection.bytes);
    client.time += taken;
  }
}

void ReadingTurns::Forget(absl::Time now) {
  if (connections_.size() > kMaxKnown) connections_.clear();
  if (clients_.size() > kMaxKnown) clients_.clear();
  if (now - halved_ < kHalfLife) return;
  halved_ = now;
  for (auto& [id, client] : clients_) client.time /= 2;
}

int64_t ReadingTurns::Allow(Reader reader) {
  Connection& connection = ConnectionOf(reader);
  if (connection.round == round_) {
    if (clock_->Now() - round_start_ >= kRoundTime) return 0;
    return std::max<int64_t>(0, connection.cost.TurnBytes() - connection.bytes);
  }
  Client& client = ClientOf(reader);
  if (!IsChosen(reader) && !HasRoom(connection, client)) {
    Refuse(reader, connection, client);
    return 0;
  }
  Take(reader, &connection, &client);
  return std::min(kFirstReadBytes, connection.cost.TurnBytes());
}

bool ReadingTurns::HasRoom(const Connection& connection,
                           const Client& client) const {
  if (client.round == round_ && client.reads >= kClientReads) return false;
  if (chosen_ && client.time > chosen_->client_time) return false;
  return planned_ == absl::ZeroDuration() ||
         planned_ + connection.cost.read <= kRoundTime;
}

void ReadingTurns::Take(Reader reader, Connection* connection, Client* client) {
  if (!IsChosen(reader)) planned_ += connection->cost.read;
  taken_ += connection->cost.read;
  connection->round = round_;
  connection->turn = ++turns_;
  connection->bytes = 0;
  if (client->round != round_) client->reads = 0;
  client->round = round_;
  ++client->reads;
  readers_.push_back(reader);
}

void ReadingTurns::Refuse(Reader reader, const Connection& connection,
                          const Client& client) {
  if (next_ && std::tie(next_->client_time, next_->turn) <=
                   std::tie(client.time, connection.turn)) {
    return;
  }
  next_ = Candidate{reader, client.time, connection.turn};
}

void ReadingTurns::Add(Reader reader, int64_t bytes) {
  ConnectionOf(reader).bytes += bytes;
}

bool ReadingTurns::AllowEnd(Reader reader) {
  Connection& connection = ConnectionOf(reader);
  Client& client = ClientOf(reader);
  if (ended_ && !IsChosen(reader)) {
    Refuse(reader, connection, client);
    return false;
  }
  ended_ = true;
  if (connection.round != round_) Take(reader, &connection, &client);
  return true;
}

bool ReadingTurns::IsChosen(Reader reader) const {
  return chosen_ && chosen_->reader.connection == reader.connection;
}

ReadingTurns::Connection& ReadingTurns::ConnectionOf(Reader reader) {
  Connection& connection = connections_[reader.connection];
  if (connection.turn == 0) connection.cost = ClientOf(reader).cost;
  return connection;
}

ReadingTurns::Client& ReadingTurns::ClientOf(Reader reader) {
  return clients_[reader.client];
}

}  // namespace qgemm
