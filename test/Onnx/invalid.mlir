// RUN: kimi-opt %s --split-input-file --verify-diagnostics

func.func @n1_op_type(%x: tensor<f32>) {
  // expected-error @+1 {{has an empty op_type (N1)}}
  %0 = onnx.node ""(%x) {version = 13 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @n1_version(%x: tensor<f32>) {
  // expected-error @+1 {{has version 0, which is less than 1 (N1)}}
  %0 = onnx.node "Relu"(%x) {version = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @n2_count(%x: tensor<i1>) {
  // expected-error @+1 {{names 2 subgraphs but holds 1 (N2)}}
  "onnx.node"(%x) <{op_type = "If", version = 16 : i64, attrs = {}, region_names = ["a", "b"]}> ({
    onnx.yield
  }) : (tensor<i1>) -> ()
  return
}

// -----

func.func @n2_twice(%x: tensor<i1>) {
  // expected-error @+1 {{has two attributes or subgraphs named 'body' (N2)}}
  onnx.node "If"(%x) {attrs = {body = 1 : i64}, version = 16 : i64} : (tensor<i1>) -> () "body" {
    onnx.yield
  }
  return
}

// -----

func.func @n3_operand(%x: index) {
  // expected-error @+1 {{takes or gives a value of type 'index'; tensors and none are allowed (N3)}}
  %0 = onnx.node "Relu"(%x) {version = 14 : i64} : (index) -> tensor<f32>
  return
}

// -----

func.func @n3_region(%x: tensor<i1>) {
  // expected-error @+1 {{has a subgraph with an input of type 'f32'; tensors and none are allowed (N3)}}
  onnx.node "Loop"(%x) {version = 16 : i64} : (tensor<i1>) -> () "body" {
  ^bb0(%a: f32):
    onnx.yield
  }
  return
}

// -----

func.func @n4(%x: tensor<f32>) {
  // expected-error @+1 {{attribute 'axis' is of a kind that no ONNX attribute has: 1 : i32 (N4)}}
  %0 = onnx.node "Softmax"(%x) {attrs = {axis = 1 : i32}, version = 13 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @n5(%x: tensor<i1>) {
  // expected-error @+1 {{needs subgraphs of one block, ended by onnx.yield (N5)}}
  onnx.node "If"(%x) {version = 16 : i64} : (tensor<i1>) -> () "then_branch" {
  }
  return
}

// -----

func.func @yield_parent(%x: tensor<f32>) {
  // expected-error @+1 {{expects parent op 'onnx.node'}}
  onnx.yield %x : tensor<f32>
}

// -----

// expected-error @+1 {{onnx.opsets is not a dictionary of i64 (D1)}}
module attributes {onnx.opsets = {ai.onnx = 20 : i32}} {
}

// -----

// expected-error @+1 {{attribute 'onnx.ir_version' belongs on a module (D1)}}
func.func private @d1() attributes {onnx.ir_version = 3 : i64}

// -----

// expected-error @+1 {{onnx.name is not a string (D2)}}
func.func private @d2(tensor<f32> {onnx.name = 1 : i64})

// -----

// expected-error @+1 {{onnx.dims is not an array of strings and i64 (D3)}}
func.func private @d3(tensor<?xf32> {onnx.dims = [1.0 : f32]})

// -----

// expected-error @+1 {{onnx.dims has 2 entries for 'tensor<?xf32>' (D3)}}
func.func private @d3_rank() -> (tensor<?xf32> {onnx.dims = ["a", "b"]})

// -----

// expected-error @+1 {{attribute 'onnx.other' is unknown to the onnx dialect (D4)}}
func.func private @d4(tensor<?xf32> {onnx.other = 1 : i64})

// -----

// expected-error @+1 {{attribute 'onnx.other' is unknown to the onnx dialect (D4)}}
module attributes {onnx.other = 1 : i64} {
}

// -----

func.func @constant() {
  // expected-error @+1 {{'onnx.constant' op failed to verify that all of {value, result} have same type}}
  %0 = "onnx.constant"() <{value = dense<1> : tensor<2xi64>}> : () -> tensor<3xi64>
  return
}
