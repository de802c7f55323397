// SPDX-License-Identifier: Apache-2.0
//
// Shares a thread's time among the connections that it reads: decisions only.
// The sockets are read in transit.cc.
//
// gRPC reads a connection for as long as it has anything, and handles the calls
// that came before it polls again. A KiB of a connection may be 3 us of copying
// or thirty calls of 50 us each, so that time is learned, not counted in bytes
// (docs/decisions/0022-reading-turns.md).

#ifndef QGEMM_SERVER_NET_READING_TURNS_H_
#define QGEMM_SERVER_NET_READING_TURNS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace qgemm {

// A connection and its client. Connections have numbers of their own; clients
// that share a number share their time.
struct Reader {
  uint64_t connection = 0;
  uint64_t client = 0;
};

// Turns of the connections of one thread, by the thread's own time. A round
// lasts from one poll to the next; connections that are refused in it are seen
// again in the next, as long as they have bytes. A round is held to about a
// millisecond by what each connection's reads have taken until now. Of those
// that were refused one is certain of the next round: of the client that has
// had the least time lately, the connection whose last turn is longest ago;
// clients that have had more time than that one then wait. Used by one thread.
class ReadingTurns {
 public:
  // `run_clock` tells the time that the thread has run, and is read when much
  // time has passed by `clock`. Both must outlive this.
  ReadingTurns(const Clock* clock, const Clock* run_clock)
      : clock_(clock), run_clock_(run_clock), round_start_(clock->Now()) {}

  // The thread has handled what it has read, and has been told which
  // connections have bytes.
  void BeginRound();

  // Bytes that may be read of the connection at once; 0: none in this round.
  int64_t Allow(Reader reader);

  // Counts bytes that were read after Allow.
  void Add(Reader reader, int64_t bytes);

  // True if the connection may be torn down in this round, which takes time for
  // each of its calls: one a round, and the one that is certain of it.
  bool AllowEnd(Reader reader);

 private:
  // Cost of the latest turns, each of which counts half of the one after it.
  // Bytes that are not known yet may be nothing but calls: a turn of 4 KiB.
  struct Cost {
    absl::Duration turn = absl::Microseconds(20);  // a mean
    absl::Duration time = absl::Milliseconds(2);   // sums: this for so many
    double kib = 16;

    void Learn(absl::Duration taken, int64_t bytes);
    // Bytes that take no longer than a turn should.
    int64_t TurnBytes() const;
  };

  struct Connection {
    Cost cost;
    uint64_t round = 0;  // of its last turn
    uint64_t turn = 0;   // number of its last turn among all
    int64_t bytes = 0;   // in that round
  };

  struct Client {
    Cost cost;            // a new connection's, until it has its own
    absl::Duration time;  // halved every 100 ms
    uint64_t round = 0;
    int turns = 0;      // in that round
    int64_t bytes = 0;  // allowed to them at first
  };

  // Somebody who was refused.
  struct Candidate {
    Reader reader;
    absl::Duration client_time;
    uint64_t turn = 0;
  };

  Connection& ConnectionOf(Reader reader);
  Client& ClientOf(Reader reader);
  bool IsChosen(Reader reader) const;
  bool HasRoom(const Connection& connection, const Client& client) const;
  void Take(Reader reader, Connection* connection, Client* client);
  void Refuse(Reader reader, const Connection& connection,
              const Client& client);
  absl::Duration RunSince(absl::Duration passed);
  void Learn(absl::Duration round);
  void Forget(absl::Time now);

  const Clock* const clock_;
  const Clock* const run_clock_;
  absl::Time last_run_ = absl::InfinitePast();
  uint64_t round_ = 1;
  uint64_t turns_ = 0;
  absl::Time round_start_;
  absl::Time halved_ = absl::InfinitePast();
  absl::Duration planned_;           // of this round, the chosen one's included
  absl::Duration taken_;             // of those that have had their turn
  std::vector<Reader> readers_;      // that have had a turn in this round
  bool ended_ = false;               // one was torn down in this round
  std::optional<Candidate> chosen_;  // certain of this round
  std::optional<Candidate> next_;    // of the next, unless another is
  absl::flat_hash_map<uint64_t, Connection> connections_;
  absl::flat_hash_map<uint64_t, Client> clients_;
};

}  // namespace qgemm

#endif  // QGEMM_SERVER_NET_READING_TURNS_H_
