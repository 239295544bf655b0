// As the README beside this folder says.
#pragma once
#include <cstdint>
#include <vector>

namespace MNN {
class Tensor {
public:
    enum DimensionType { TENSORFLOW, CAFFE, CAFFE_C4 };
    Tensor(const Tensor* like, DimensionType type = CAFFE, bool allocate = true);
    ~Tensor();
    bool copyFromHostTensor(const Tensor* host);
    bool copyToHostTensor(Tensor* host) const;
    std::vector<int> shape() const;
    int size() const;
    template <typename T> T* host() const { return reinterpret_cast<T*>(host_); }

private:
    uint64_t device_;
    const void* interface_;
    uint8_t* host_;
    char rest_[80];
};
}
