// SPDX-License-Identifier: Apache-2.0
//
// A shared library with the functions of NVIDIA's that the server calls: two
// GPUs, of which the second tells little.

#include <cstring>

// NOLINTBEGIN(google-runtime-int)
extern "C" {

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  static int devices[2];
  *device = &devices[index];
  devices[index] = static_cast<int>(index);
  return 0;
}

int nvmlDeviceGetName(void*, char* name, unsigned int) {
  std::strcpy(name, "NVIDIA Fake");
  return 0;
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int) {
  std::strcpy(uuid, *static_cast<int*>(device) == 0 ? "GPU-a" : "GPU-b");
  return 0;
}

int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 1000;  // total, free, used
  memory[1] = 600;
  memory[2] = 400;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void*, unsigned int* rates) {
  rates[0] = 75;  // GPU, memory
  rates[1] = 10;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned int* milliwatts) {
  *milliwatts = 350500;
  return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned int* milliwatts) {
  *milliwatts = 700000;
  return 0;
}

int nvmlDeviceGetTemperature(void*, int, unsigned int* celsius) {
  *celsius = 61;
  return 0;
}

int nvmlDeviceGetTotalEccErrors(void* device, int kind, int,
                                unsigned long long* errors) {
  constexpr int kNotSupported = 3;
  if (*static_cast<int*>(device) == 1) return kNotSupported;
  *errors = kind == 0 ? 5 : 1;
  return 0;
}

}  // extern "C"
// NOLINTEND(google-runtime-int)
