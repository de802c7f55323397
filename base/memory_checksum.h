// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit checksum of memory: the sum of a mix of each word with its index. So
// parts are summed in any order, by threads of a host or a GPU.

#ifndef QGEMM_BASE_MEMORY_CHECKSUM_H_
#define QGEMM_BASE_MEMORY_CHECKSUM_H_

#include <cstdint>

#include "base/host_device.h"

namespace qgemm {

// The term of the word at that index: bytes [8 * index, 8 * index + 8),
// little-endian, with zeros past the end. It finds damage, not forgery.
// Source: the finalizer of MurmurHash3, over the word and a Weyl sequence.
QGEMM_HOST_DEVICE uint64_t ChecksumTerm(uint64_t word, uint64_t index) {
  uint64_t mixed = word ^ ((index + 1) * 0x9e3779b97f4a7c15);
  mixed = (mixed ^ (mixed >> 33)) * 0xff51afd7ed558ccd;
  mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53;
  return mixed ^ (mixed >> 33);
}

// The checksum of host memory: the sum of its words' terms, modulo 2^64.
uint64_t MemoryChecksum(const uint8_t* data, int64_t size_bytes);

}  // namespace qgemm

#endif  // QGEMM_BASE_MEMORY_CHECKSUM_H_
